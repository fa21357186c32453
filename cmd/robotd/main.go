// Command robotd is the robot: it collects pages for a service and hands them in.
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
	context.AfterFunc(ctx, stop) // a second signal ends the program as it would any other
	err := command().ExecuteContext(ctx)
	if err == nil || ctx.Err() != nil { // an error after the signal to stop is the stop itself
		return
	}
	fmt.Fprintln(os.Stderr, "robotd:", err)
	code := commandline.Code(err)
	if e, ok := errors.AsType[*exitError](err); ok {
		code = e.code
	}
	os.Exit(code)
}

// signals are those that stop the robot: what is collected is sealed first. A hang-up is
// one, unless nohup has it ignored; settings are read at the start, so that a restart is
// how they change.
func signals() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}
