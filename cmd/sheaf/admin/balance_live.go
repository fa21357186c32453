package admin

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sheaf/internal/route"
	"sheaf/manager"
	"sheaf/manager/assign"
	"sheaf/manager/balance"
	"sheaf/manager/levelling"
	"sheaf/serve/client"
)

// The commands here ask the running service; those in balance.go work on files.

func balanceShow() *cobra.Command {
	tree := false
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the present plan, how much each robot has left, and what passes on now",
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			show := showBalance
			if tree {
				show = showTree
			}
			return ask(cmd, c, manager.ShowBalance, route.None{}, show)
		}),
	}
	cmd.Flags().BoolVar(&tree, "tree", false, "show the tree along which robots pass URLs on: its sums, what passes on now, and what passed on lately")
	return cmd
}

func balanceSeries() *cobra.Command {
	return asking(&cobra.Command{Use: "series", Short: "Show the robots' pages, links and load by hour, day or month"},
		manager.ShowSeries, new(manager.SeriesQuery), "by since robot", func(w io.Writer, answer manager.SeriesResponse) {
			Table(w, "begin\trobot\tpages\tlinks\tload", answer.Points, func(p levelling.Point) []any {
				return []any{p.Begin.Format("2006-01-02 15:04"), p.Robot, p.Pages, p.Links, p.Load}
			})
		})
}

// showTree shows the tree of the robots at work: what each has left and should have, what the
// robots would hand on now, and what they have handed on lately.
func showTree(w io.Writer, a manager.BalanceResponse) {
	fmt.Fprintf(w, "%d URLs left at %d robots that are at work, %.0f on the mean.\n", a.Left, len(a.Tree), a.Mean)
	if len(a.Tree) > 0 {
		depth := map[string]int{}
		Table(w, "robot\tleft\tdue\ttoo many, with those below", a.Tree, func(n levelling.Node) []any {
			if n.Parent != "" {
				depth[n.Robot] = depth[n.Parent] + 1
			}
			return []any{strings.Repeat("  ", depth[n.Robot]) + n.Robot, n.Left, fmt.Sprintf("%.0f", n.Due), fmt.Sprintf("%.0f", n.Over)}
		})
	}
	showPassing(w, a.Passing)
	for _, l := range a.Levelled {
		fmt.Fprintf(w, "\nPassed on %s:\n", Moment(l.Made))
		passed(w, l.Passed)
	}
}

// showPassing shows what each robot would hand on if its heartbeat came now.
func showPassing(w io.Writer, list []levelling.Passing) {
	if len(list) == 0 {
		fmt.Fprintln(w, "With the next heartbeats nothing passes on.")
		return
	}
	fmt.Fprintln(w, "With the next heartbeats this passes on:")
	passed(w, list)
}

func passed(w io.Writer, list []levelling.Passing) {
	for _, p := range list {
		fmt.Fprintf(w, "  %s → %s %d hosts, %.0f URLs\n", p.From, p.To, p.Hosts, p.URLs)
	}
}

func showBalance(w io.Writer, a manager.BalanceResponse) {
	backlog := map[string]levelling.Backlog{}
	for _, b := range a.Backlogs {
		backlog[b.Robot] = b
	}
	Table(w, "robot\thosts\texpected\tline\tphase\tbegun\tdone\tleft\tpages/s\theard of", a.Robots, func(r levelling.Share) []any {
		b := backlog[r.Robot]
		return []any{r.Robot, r.Hosts, span(r.Expected), fmt.Sprintf("%.2f", r.Slow), cmp.Or(b.Phase, "-"), b.Begun, b.Done, b.Left, fmt.Sprintf("%.2f", b.Rate), Moment(b.At)}
	})
	showEnds(w, a.Ends, a.Nights)
	fmt.Fprintf(w, "\n%d URLs left at the robots that are at work, %.0f on the mean.\n", a.Left, a.Mean)
	showPassing(w, a.Passing)
	if len(a.Copies) > 0 {
		fmt.Fprintln(w)
		Table(w, "copies of\trobot\tcompared\tdiffering\t", a.Copies, func(c assign.Copies) []any {
			odd := ""
			if c.Odd {
				odd = "odd, such as " + c.Example
			}
			return []any{c.Host, c.Robot, c.Compared, c.Differing, odd}
		})
	}
	showCourse(w, a.Course)
	if a.Plan.Made.IsZero() {
		fmt.Fprintln(w, "\nThere is no plan by costs yet: hosts are with the robots to which they first went.")
		return
	}
	fmt.Fprintf(w, "\nPlan of %s: %d hosts moved", Moment(a.Plan.Made), a.Plan.Moved)
	if a.Plan.Bound > 0 {
		fmt.Fprintf(w, ", ends after %s of collecting; no plan ends before %s", span(a.Plan.Makespan), span(a.Plan.Bound))
	}
	fmt.Fprintf(w, "; %d distances are being measured.\n", a.Probes)
	sentences(w, a.Plan.Why)
}

// showCourse shows the progress of the plan that is being made, and why the last plan was given up.
func showCourse(w io.Writer, c levelling.Course) {
	if c.Step != "" {
		fmt.Fprintf(w, "\nA plan is being made since %s. Step %s.\n", Moment(c.Began), c.Step)
	}
	if c.Reason != "" {
		fmt.Fprintf(w, "\nThe plan of %s was not completed: %s.\n", Moment(c.GivenUp), c.Reason)
	}
}

// showEnds shows when robots are to end, and the predicted and the actual length of their last
// nights.
func showEnds(w io.Writer, ends []levelling.Outlook, nights []levelling.Night) {
	if len(ends) > 0 {
		fmt.Fprintln(w)
		Table(w, "robot\tends\tafter\tbound by\tlongest chain", ends, func(o levelling.Outlook) []any {
			return []any{o.Robot, Moment(o.At), span(o.MS), o.Binds, cmp.Or(o.Host, "-")}
		})
	}
	nights = slices.DeleteFunc(slices.Clone(nights), func(n levelling.Night) bool { return n.Ended.IsZero() })
	if len(nights) == 0 {
		return
	}
	fmt.Fprintln(w)
	Table(w, "robot\tcycle\tbegan\tpredicted\ttook\terror", nights, func(n levelling.Night) []any {
		predicted, wrong := "-", "-"
		if n.Predicted > 0 {
			predicted, wrong = span(n.Predicted), fmt.Sprintf("%+.0f %%", 100*(n.Predicted/max(n.Worked, 1)-1))
		}
		return []any{n.Robot, n.Cycle, Moment(n.Began), predicted, span(n.Worked), wrong}
	})
}

// livePlan asks the service for a plan as of now. With apply the service also assigns the hosts by
// the plan.
func livePlan(cmd *cobra.Command, explain, apply bool) error {
	return AsOperator(func(cmd *cobra.Command, c *client.Client, _ []string) error {
		op, done := manager.Plan, "would move"
		if apply {
			op, done = manager.Rebalance, "moved"
		}
		c.HTTP.Timeout = 15 * time.Minute // longer than the service may take
		return ask(cmd, c, op, route.None{}, func(w io.Writer, plan levelling.Plan) {
			if plan.Made.IsZero() {
				sentences(w, plan.Why)
				return
			}
			fmt.Fprintf(w, "%d hosts %s. The plan ends after %s of collecting, without moves after %s. No plan ends before %s.\n",
				plan.Moved, done, span(plan.Makespan), span(plan.Before), span(plan.Bound))
			fmt.Fprintf(w, "It is based on %d measured distances, without %d odd hours; %d more are worth measuring.\n", plan.Measured, plan.Outliers, plan.Probes)
			for _, l := range plan.Large {
				fmt.Fprintf(w, "%s takes %s at the robot nearest to it, which is more than a window. It would have to be split in %d.\n", l.Host, span(l.Least), l.Parts)
			}
			if explain {
				Table(w, "robot\tends after\tbound by\tlongest chain", plan.Ends, func(e levelling.RobotEnd) []any {
					return []any{e.Robot, span(e.MS), cmp.Or(string(e.Binds), "-"), cmp.Or(e.Host, "-")}
				})
				sentences(w, plan.Why)
			}
		})
	})(cmd, nil)
}

func sentences(w io.Writer, list []string) {
	for _, s := range list {
		fmt.Fprintf(w, "\n%s\n", s)
	}
}

func balanceCosts() *cobra.Command {
	return &cobra.Command{
		Use:   "costs [HOST]",
		Short: "Show what a host cost the robots hour by hour; or the robots' rates by weekday and hour",
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			if len(args) > 0 {
				return ask(cmd, c, manager.ShowCosts, args[0], showCosts)
			}
			return ask(cmd, c, manager.ShowRates, route.None{}, func(w io.Writer, a manager.RatesResponse) {
				Table(w, "robot\thour ("+a.Zone+")\trequests\tKB/s of a transfer", a.Rates, func(r levelling.HourRate) []any {
					return []any{r.Robot, fmt.Sprintf("%s %02dh", r.Weekday, r.Hour), r.Requests, fmt.Sprintf("%.1f", r.KBs)}
				})
			})
		}),
	}
}

func showCosts(w io.Writer, a levelling.HostCosts) {
	var rows [][]any
	for _, r := range a.Robots {
		for _, h := range r.Hours {
			odd := ""
			if h.Outlier {
				odd = "odd"
			}
			rows = append(rows, []any{r.Robot, h.Hour.Local().Format("Mon 2006-01-02 15h"), h.Requests, fmt.Sprintf("%.0f", h.KB), h.MS, fmt.Sprintf("%.1f", h.KBs), odd})
		}
		rows = append(rows, []any{r.Robot, "a night", "", fmt.Sprintf("%.0f", r.KB), fmt.Sprintf("%.0f", r.KB*r.Distance), "", fmt.Sprintf("%.2f ms/KB", r.Distance)})
	}
	Table(w, "robot\thour\trequests\tKB\tms\tKB/s\t", rows, func(row []any) []any { return row })
}

func balanceForecast() *cobra.Command {
	return asking(&cobra.Command{
		Use:   "forecast --hosts N --pages M",
		Short: "Say how many robots are needed to collect so many pages every night, and what limits them",
		Long: `Say how many robots are needed to collect M pages of N hosts every night, and what limits them.

The hosts are assumed to be like the hosts that this service's robots have measured, with more or fewer pages,
and the robots like those that take part. Before anything was measured, the answer rests on assumptions. It
names them.`,
	}, manager.ShowForecast, new(manager.ForecastQuery), "hosts pages window", showForecast)
}

func showForecast(w io.Writer, f levelling.Forecast) {
	fmt.Fprintf(w, "Robots needed for %d pages of %d hosts in a night of %s: %d.\n", f.Pages, f.Hosts, span(f.Window), f.Robots)
	why := map[balance.Bind]string{
		balance.ByWidth: "how many transfers it makes at once",
		balance.ByLine:  "its line",
	}[f.Binds]
	fmt.Fprintf(w, "A robot collects %.0f pages a night, bound by %s.\n\n", f.Nightly, why)
	if f.Measured {
		fmt.Fprintf(w, "Measured, of %d hosts and the median robot:\n", f.Sample)
	} else {
		fmt.Fprintln(w, "Nothing was measured yet. These are assumptions:")
	}
	fmt.Fprintf(w, "  a page        %.1f KB, %s of transfer\n", f.PageKB, span(f.PageMS))
	fmt.Fprintf(w, "  a robot       %.0f transfers at once", f.Width)
	if f.Line > 0 {
		fmt.Fprintf(w, ", %.0f KB/s", f.Line/1024)
	} else {
		fmt.Fprint(w, "; no line is known to bind")
	}
	fmt.Fprintf(w, "\n  an address    %s between two visits\n", span(f.Interval))
	if !f.Measured {
		fmt.Fprintln(w, "  a host        has as many pages as all others")
	}
	fmt.Fprintf(w, "\nThe visits to the longest address take %s.\n", span(f.Longest))
	if f.LongAddresses == 0 {
		fmt.Fprintln(w, "No address takes longer than a night.")
		return
	}
	fmt.Fprintf(w, "%.3g %% of the addresses take longer than a night. Because of them, %.3g %% of the pages are not collected in one night,\n"+
		"however many robots there are: robots that share a host share its interval, too.\n", 100*f.LongAddresses, 100*f.LatePages)
	if f.Fitting > 0 {
		fmt.Fprintf(w, "The longest would end with the night at an interval of %s.\n", span(f.Fitting))
	} else {
		fmt.Fprintln(w, "The longest has more to transfer, one page after the other, than fits into a night at any interval.")
	}
}
