package admin

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"sheaf/internal/operators"
	"sheaf/internal/route"
	"sheaf/serve/client"
)

func OperatorCommand() *cobra.Command {
	cmd := OperatorFlags(&cobra.Command{
		Use:   "operator",
		Short: "Add, change, list and remove operators, who run the service by name",
		Long: `Add, change, list and remove operators, who run the service by name. A viewer sees everything, an
operator does the daily work, and an admin also looks after operators, releases and backups, and
deletes. The token in the data directory has the role admin.`,
	})
	cmd.AddCommand(operatorAddCommand(), operatorSetCommand(), operatorPasswordCommand(), asks("ls", "List the operators", operators.List, func(w io.Writer, list operators.OperatorList) {
		operatorTable(w, list.Operators...)
	}), asks("rm NAME", "Remove an operator, whose sessions end", operators.Remove, nil))
	return cmd
}

func operatorAddCommand() *cobra.Command {
	var wanted operators.NewOperator
	cmd := asking(&cobra.Command{
		Use:   "add NAME",
		Short: "Add an operator, and print the password",
		PreRunE: func(cmd *cobra.Command, args []string) error {
			wanted.Name = args[0]
			return readPassword(cmd, &wanted.Password)
		},
	}, operators.Create, &wanted, "role="+string(operators.Viewer), printOperator)
	passwordFlag(cmd, &wanted.Password, "the password (default a random one)")
	return cmd
}

func printOperator(w io.Writer, o operators.NewOperator) {
	fmt.Fprintf(w, "operator %s\nrole     %s\npassword %s\n", o.Name, o.Role, o.Password)
}

func operatorSetCommand() *cobra.Command {
	return asking(&cobra.Command{Use: "set NAME", Short: "Change an operator's role, or suspend an operator and end the sessions"},
		operators.Modify, new(route.At[operators.OperatorChange]), "role suspended", func(w io.Writer, now operators.NewOperator) {
			operatorTable(w, now.Operator)
		})
}

func operatorPasswordCommand() *cobra.Command {
	var password string
	cmd := &cobra.Command{
		Use:   "password [NAME]",
		Short: "Change your password or, as an admin, another operator's",
		Long: `Change your password, with --operator, or, as an admin, the password of the operator NAME. The sessions
that began with the old password end.`,
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			if err := readPassword(cmd, &password); err != nil {
				return err
			}
			if len(args) == 1 {
				change := operators.OperatorChange{Password: &password}
				return ask(cmd, c, operators.Modify, route.At[operators.OperatorChange]{Name: args[0], Body: change}, printOperator)
			}
			if c.User == "" {
				return fmt.Errorf("whose password? give NAME as an admin, or --operator for the own password")
			}
			if password == "" {
				return fmt.Errorf("--password: give the new password, or - to type it")
			}
			return tell(cmd, c, operators.SetOwn, operators.NewPassword{Old: c.Password, New: password})
		}),
	}
	passwordFlag(cmd, &password, "the new password (with NAME: default a random one)")
	return cmd
}

func operatorTable(w io.Writer, list ...operators.Operator) {
	Table(w, "operator\trole\tstate\tlogs in by\tlast log-in", list, func(o operators.Operator) []any {
		state := "active"
		if o.Suspended {
			state = "suspended"
		}
		by := "password"
		if o.Provider {
			by = "provider"
		}
		return []any{o.Name, o.Role, state, by, Moment(o.Seen)}
	})
}

// passwordFlag adds the flag --password. Call readPassword on its value: for "-" it asks on the
// terminal, or reads standard input.
func passwordFlag(cmd *cobra.Command, to *string, what string) {
	cmd.Flags().StringVar(to, "password", "", what+`; "-" asks for it, or reads a line of standard input. Others on this machine can see a password in the command's line`)
}

// readPassword replaces the value "-" of --password by text that is typed on the terminal and not
// shown, or by the first line of standard input.
func readPassword(cmd *cobra.Command, value *string) error {
	if *value != "-" {
		return nil
	}
	in := cmd.InOrStdin()
	if IsTerminal(in) {
		fmt.Fprint(cmd.ErrOrStderr(), "Password: ")
		show, err := hideTyping(in.(*os.File))
		if err != nil {
			return fmt.Errorf("--password -: %w", err)
		}
		defer func() { show(); fmt.Fprintln(cmd.ErrOrStderr()) }()
	}
	line := bufio.NewScanner(in)
	if !line.Scan() || line.Text() == "" {
		return fmt.Errorf("--password -: there is no password on standard input: %w", cmp.Or(line.Err(), io.ErrUnexpectedEOF))
	}
	*value = line.Text()
	return nil
}

// hideTyping makes a terminal hide typed text until show is called.
func hideTyping(f *os.File) (show func() error, err error) {
	before, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return nil, errors.Join(errors.New("the terminal cannot hide what is typed"), err)
	}
	hidden := *before
	hidden.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, &hidden); err != nil {
		return nil, err
	}
	return func() error { return unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, before) }, nil
}

// IsTerminal reports whether a reader or a writer is a terminal.
func IsTerminal(of any) bool {
	f, ok := of.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}
