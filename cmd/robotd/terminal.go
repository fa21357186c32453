package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// terminal is what the output goes to, where that is one.
type terminal struct{ fd int }

// onTerminal reports whether out is a terminal.
func onTerminal(out io.Writer) (terminal, bool) {
	f, ok := out.(*os.File)
	if !ok {
		return terminal{}, false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return terminal{int(f.Fd())}, err == nil
}

// size returns columns and lines, as they are now; 80 and 24 where the terminal does not say.
func (t terminal) size() (width, height int) {
	ws, err := unix.IoctlGetWinsize(t.fd, unix.TIOCGWINSZ)
	if err != nil || ws.Col == 0 || ws.Row == 0 {
		return 80, 24
	}
	return int(ws.Col), int(ws.Row)
}

// colors reports whether the user wants them (no-color.org).
func colors() bool { return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" }
