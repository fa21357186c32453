// Command robotd is the robot: it collects pages for a service and uploads them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata"

	"sheaf/internal/commandline"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), signals()...)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	err := command().ExecuteContext(ctx)
	if err == nil || ctx.Err() != nil { // after a signal, an error means only that the program was stopped
		return
	}
	fmt.Fprintln(os.Stderr, "robotd:", err)
	code := commandline.Code(err)
	if e, ok := errors.AsType[*exitError](err); ok {
		code = e.code
	}
	os.Exit(code)
}

// signals returns the signals that make the robot seal its collected pages and stop. A hang-up is
// one of them, unless nohup has it ignored: settings are read only at the start, so a restart is
// the way to change them.
func signals() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}
