package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"sheaf/internal/loop"
	"sheaf/robotd/config"
	"sheaf/robotd/control"
)

// Terminal control: the alternate screen and back; the cursor to the top; clearing the rest of the
// line and of the screen.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	home        = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// watcher shows a robot's status: once, live or as JSON.
type watcher struct {
	monitor *control.Monitor
	out     io.Writer
	hosts   int // hosts to show; -1: all
}

func statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what the robot is doing",
		Long: "status shows what the robot is doing: on a terminal live, until Ctrl-C; to a file or\n" +
			"pipe once. If the robot does not run, it shows the last known state and exits with 3.",
	}
	asJSON := cmd.Flags().Bool("json", false, "as JSON")
	once := cmd.Flags().Bool("once", false, "show it once, on a terminal too")
	hosts := cmd.Flags().String("hosts", "20", `how many hosts to show, the busiest first, or "all"`)
	cmd.RunE = with(func(cmd *cobra.Command, cfg config.Config, _ []string) error {
		most, err := howMany(*hosts)
		if err != nil {
			return err
		}
		w := watcher{monitor: control.NewMonitor(cfg.DataDir), out: cmd.OutOrStdout(), hosts: most}
		term, ok := onTerminal(w.out)
		switch {
		case *asJSON:
			return w.json(cmd.Context())
		case ok && !*once:
			return w.live(cmd.Context(), term)
		}
		return w.print(cmd.Context(), screenOf(w.out))
	})
	return cmd
}

// howMany parses --hosts. It returns -1 for all.
func howMany(hosts string) (int, error) {
	if hosts == "all" {
		return -1, nil
	}
	n, err := strconv.Atoi(hosts)
	if err != nil || n < 0 {
		return 0, fmt.Errorf(`--hosts %s: want a number or "all"`, hosts)
	}
	return n, nil
}

// errNotRunning has an exit code of its own, for scripts.
var errNotRunning = &exitError{3, "the robot does not run"}

// exitError is an error with its own exit code.
type exitError struct {
	code int
	text string
}

func (e *exitError) Error() string { return e.text }

// screenOf returns the screen for a text that is written to out once.
func screenOf(out io.Writer) control.Screen {
	screen := control.Screen{Now: time.Now()}
	if term, ok := onTerminal(out); ok {
		screen.Width, _ = term.size()
	}
	return screen
}

func (w watcher) print(ctx context.Context, screen control.Screen) error {
	s, running, err := w.monitor.Status(ctx, w.hosts)
	if err != nil {
		return err
	}
	screen.Running, screen.Now = running, time.Now()
	if _, err := io.WriteString(w.out, screen.Render(&s)); err != nil {
		return err
	}
	if !running {
		return errNotRunning
	}
	return nil
}

func (w watcher) json(ctx context.Context) error {
	s, running, err := w.monitor.Status(ctx, w.hosts)
	if err != nil {
		return err
	}
	out := json.NewEncoder(w.out)
	out.SetIndent("", "  ")
	err = out.Encode(struct {
		control.Status
		Running bool `json:"running"`
	}{s, running})
	if err == nil && !running {
		err = errNotRunning
	}
	return err
}

// live shows the status every second, in place, until ctx or the robot ends. The last status stays
// on the screen.
func (w watcher) live(ctx context.Context, term terminal) error {
	var screen control.Screen
	last := ""
	fmt.Fprint(w.out, enterScreen)
	defer func() { fmt.Fprint(w.out, leaveScreen, last) }()
	for {
		screen.Width, screen.Height = term.size()
		s, running, err := w.monitor.Status(ctx, screen.Height)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		screen.Running, screen.Now = running, time.Now()
		last = screen.Render(&s)
		lines := strings.Split(strings.TrimSuffix(last, "\n"), "\n")
		shown := lines[:min(len(lines), max(1, screen.Height-1))]
		fmt.Fprint(w.out, home, strings.Join(shown, clearLine+"\n"), clearLine, "\n", clearBelow)
		if !running {
			return errNotRunning
		}
		if !loop.Pause(ctx, time.Second) {
			return nil
		}
	}
}

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
