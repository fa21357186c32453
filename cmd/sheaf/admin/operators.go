package admin

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

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
