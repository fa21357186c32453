// Papers prints figures that the papers published beside the same figures of Sheaf, computed now on
// this machine:
//
//	go run ./test/papers            # all, some minutes
//	go run ./test/papers 001 004    # of some papers
//	go run ./test/papers --json
//
// What cannot be the same (the networks of 1999, the sites) is drawn with fixed seeds, and each
// line says how it differs. Nothing leaves the machine. docs/papers.md has the output with its
// date.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"sheaf/internal/testkit"
)

// row is a figure of a paper, with Sheaf's beside it.
type row struct {
	Paper     string `json:"paper"`
	Figure    string `json:"figure"`
	What      string `json:"what"`
	Published string `json:"published"` // "" if the paper has no such figure
	Ours      string `json:"ours"`
	Differs   string `json:"differs,omitempty"`
}

// part computes some of the rows.
type part struct {
	papers []string // whose rows it makes
	rows   func(testing.TB) []row
}

var parts = []part{
	{[]string{"001"}, flows},
	{[]string{"001"}, levelling},
	{[]string{"000", "001"}, nights},
	{[]string{"002"}, leases},
	{[]string{"003"}, imbalance},
	{[]string{"004"}, hours},
	{[]string{"004"}, staleness},
	{[]string{"003"}, names},
	{[]string{"000", "001", "003"}, service},
	{[]string{"003"}, charts},
}

func main() {
	asJSON := flag.Bool("json", false, "print JSON")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./test/papers [--json] [000 001 002 003 004]")
	}
	flag.Parse()
	for _, paper := range flag.Args() {
		if !slices.ContainsFunc(parts, func(p part) bool { return slices.Contains(p.papers, paper) }) {
			fmt.Fprintf(os.Stderr, "papers: there are no figures of paper %q; there are 000, 001, 002, 003 and 004\n", paper)
			os.Exit(2)
		}
	}
	var all []row
	for _, part := range parts {
		if flag.NArg() > 0 && !slices.ContainsFunc(part.papers, func(p string) bool { return slices.Contains(flag.Args(), p) }) {
			continue
		}
		missing, err := testkit.Perform(context.Background(), "papers", func(t testing.TB) { all = append(all, part.rows(t)...) })
		if err != nil || missing != "" {
			fmt.Fprintln(os.Stderr, "papers:", missing, err)
			os.Exit(1)
		}
	}
	slices.SortStableFunc(all, func(a, b row) int { return strings.Compare(a.Paper, b.Paper) })
	if err := write(all, *asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "papers:", err)
		os.Exit(1)
	}
}

func write(all []row, asJSON bool) error {
	if asJSON {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		return out.Encode(all)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PAPER\tFIGURE\tWHAT\tPUBLISHED\tOURS\tWHAT DIFFERS")
	for _, r := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Paper, r.Figure, r.What, cmp.Or(r.Published, "–"), r.Ours, r.Differs)
	}
	return w.Flush()
}
