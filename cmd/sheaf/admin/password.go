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
)

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
