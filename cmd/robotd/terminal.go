package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// terminal is the terminal to which the output goes.
type terminal struct{ fd int }

// onTerminal returns the terminal behind out; ok is false if out is no terminal.
func onTerminal(out io.Writer) (terminal, bool) {
	f, ok := out.(*os.File)
	if !ok {
		return terminal{}, false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return terminal{int(f.Fd())}, err == nil
}

// size returns the current columns and lines; 80 and 24 if the terminal does not say.
func (t terminal) size() (width, height int) {
	ws, err := unix.IoctlGetWinsize(t.fd, unix.TIOCGWINSZ)
	if err != nil || ws.Col == 0 || ws.Row == 0 {
		return 80, 24
	}
	return int(ws.Col), int(ws.Row)
}
