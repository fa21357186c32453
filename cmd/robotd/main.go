// Command robotd is the robot: it collects pages for a service and hands them in.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// An error after the signal to stop is the stop itself.
	if err := command().ExecuteContext(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "robotd:", err)
		os.Exit(1)
	}
}
