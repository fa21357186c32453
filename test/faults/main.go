// Command faults breaks a demo installation in one way after the other. For each fault it shows
// which alert of deploy/prometheus fires, the operators' page and the section of docs/runbook.md.
// Then it does what that section says, and shows that the alert ends:
//
//	go run ./test/faults --list
//	go run ./test/faults store certificate    # some faults; without names all, some minutes
//
// Each installation is a `sheaf serve` on loopback with a directory of its own, which is removed in
// the end. Nothing waits for hours: if a fault takes hours, the command changes the times in the
// installation's database and says so, and promtool lets Prometheus' time pass.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"sheaf/internal/testkit"
)

func main() {
	list := flag.Bool("list", false, "only list the faults and their alerts")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./test/faults [--list] [FAULT...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *list {
		listAll(os.Stdout)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if _, err := run(ctx, flag.Args(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func listAll(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range all() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.name, strings.Join(f.alerts, ", "), f.what)
	}
	w.Flush()
}

// run shows the named faults, or all if there are no names. missing has the faults that were left
// out, with what this machine lacks for them. The error names the faults that are not as the
// runbook says.
func run(ctx context.Context, names []string, out io.Writer) (missing map[string]string, err error) {
	known := all()
	for _, name := range names {
		if !slices.ContainsFunc(known, func(f fault) bool { return f.name == name }) {
			return nil, fmt.Errorf("there is no fault %q: see --list", name)
		}
	}
	missing = make(map[string]string)
	var failed []error
	for _, f := range known {
		if len(names) > 0 && !slices.Contains(names, f.name) || ctx.Err() != nil {
			continue
		}
		fmt.Fprintf(out, "\n== %s: %s\n", f.name, f.what)
		left, err := testkit.Perform(ctx, f.name, func(t testing.TB) { f.show(t, out) })
		switch {
		case err != nil:
			fmt.Fprintf(out, "   failed   %v\n", err)
			failed = append(failed, fmt.Errorf("%s: %w", f.name, err))
		case left != "":
			fmt.Fprintf(out, "   left out %s\n", left)
			missing[f.name] = left
		}
	}
	return missing, errors.Join(append(failed, ctx.Err())...)
}
