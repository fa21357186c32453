package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sheaf/internal/api"
	"sheaf/manager"
	"sheaf/manager/costs"
	"sheaf/manager/levelling"
	"sheaf/serve/client"
)

// The commands here ask the running service, those in balance.go work on files.

func balanceShow() *cobra.Command {
	return operatorFlags(&cobra.Command{
		Use:   "show",
		Short: "Show the running plan, the robots' backlogs, and what would level them",
		Args:  cobra.NoArgs,
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			var answer manager.BalanceResponse
			if err := c.Do(cmd.Context(), http.MethodGet, api.PathAdminBalance, nil, &answer); err != nil {
				return err
			}
			return show(cmd, answer, func(w io.Writer) error { return showBalance(w, answer) })
		}),
	})
}

func showBalance(w io.Writer, a manager.BalanceResponse) error {
	backlog := map[string]levelling.Backlog{}
	for _, b := range a.Backlogs {
		backlog[b.Robot] = b
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "robot\thosts\texpected\tline\tphase\tbegun\tdone\tleft\tpages/s\theard of")
	for _, r := range a.Robots {
		b := backlog[r.Robot]
		phase := b.Phase
		if phase == "" {
			phase = "-"
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%.2f\t%s\t%d\t%d\t%d\t%.2f\t%s\n", r.Robot, r.Hosts, span(r.Expected), r.Slow, phase, b.Begun, b.Done, b.Left, b.Rate, moment(b.At))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%d URLs left at the robots at work, %.0f on the mean.\n", a.Left, a.Mean)
	for n, round := range a.Flows {
		for _, f := range round {
			fmt.Fprintf(w, "  round %d: %s → %s %.0f URLs\n", n+1, f.From, f.To, f.URLs)
		}
	}
	if len(a.Copies) > 0 {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "\ncopies of\trobot\tcompared\tdiffering\t")
		for _, c := range a.Copies {
			odd := ""
			if c.Odd {
				odd = "odd, such as " + c.Example
			}
			fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\n", c.Host, c.Robot, c.Compared, c.Differing, odd)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if a.Plan.Made.IsZero() {
		_, err := fmt.Fprintln(w, "\nNo plan was made from costs yet: hosts are where they were put when they came.")
		return err
	}
	fmt.Fprintf(w, "\nPlan of %s: %d hosts moved", moment(a.Plan.Made), a.Plan.Moved)
	if a.Plan.Bound > 0 {
		fmt.Fprintf(w, ", ends after %s of transfer, %.1f %% off the bound at most", span(a.Plan.Makespan), 100*(a.Plan.Makespan/a.Plan.Bound-1))
	}
	fmt.Fprintf(w, "; %d distances are being measured.\n", a.Probes)
	return sentences(w, a.Plan.Why)
}

// livePlan asks the service what it would plan now, or, with apply, to do so.
func livePlan(cmd *cobra.Command, explain, apply bool) error {
	return asOperator(func(cmd *cobra.Command, c *client.Client, _ []string) error {
		what := "/plan"
		if apply {
			what = "/rebalance"
		}
		c.HTTP.Timeout = 10 * time.Minute // a million hosts take a while
		var plan levelling.Plan
		if err := c.Do(cmd.Context(), http.MethodPost, api.PathAdminBalance+what, nil, &plan); err != nil {
			return err
		}
		return show(cmd, plan, func(w io.Writer) error {
			done := "would move"
			if apply {
				done = "moved"
			}
			if plan.Made.IsZero() {
				return sentences(w, plan.Why)
			}
			fmt.Fprintf(w, "%d hosts %s. The plan ends after %s of transfer; no plan can end before %s: it is %.1f %% off that at most.\n",
				plan.Moved, done, span(plan.Makespan), span(plan.Bound), 100*(plan.Makespan/max(plan.Bound, 1e-9)-1))
			fmt.Fprintf(w, "From %d measured distances, %d odd hours left out; %d more are worth measuring.\n", plan.Measured, plan.Outliers, plan.Probes)
			for _, l := range plan.Large {
				fmt.Fprintf(w, "%s takes %s at the robot nearest to it: more than a window. It would have to be split in %d.\n", l.Host, span(l.Least), l.Parts)
			}
			if !explain {
				return nil
			}
			return sentences(w, plan.Why)
		})
	})(cmd, nil)
}

func sentences(w io.Writer, list []string) error {
	for _, s := range list {
		if _, err := fmt.Fprintf(w, "\n%s\n", s); err != nil {
			return err
		}
	}
	return nil
}

func balanceCosts() *cobra.Command {
	return operatorFlags(&cobra.Command{
		Use:   "costs [HOST]",
		Short: "Show what a host cost the robots hour by hour, or the robots' rates by weekday and hour",
		Args:  cobra.MaximumNArgs(1),
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			if len(args) == 0 {
				return showRates(cmd, c)
			}
			var answer costs.HostCosts
			if err := c.Do(cmd.Context(), http.MethodGet, api.PathAdminHosts+"/"+url.PathEscape(args[0])+"/costs", nil, &answer); err != nil {
				return err
			}
			return show(cmd, answer, func(w io.Writer) error {
				t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				fmt.Fprintln(t, "robot\thour\trequests\tKB\tms\tKB/s\t")
				for _, r := range answer.Robots {
					for _, h := range r.Hours {
						odd := ""
						if h.Outlier {
							odd = "odd"
						}
						fmt.Fprintf(t, "%s\t%s\t%d\t%.0f\t%d\t%.1f\t%s\n", r.Robot, h.Hour.Local().Format("Mon 2006-01-02 15h"), h.Requests, h.KB, h.MS, h.KBs, odd)
					}
					fmt.Fprintf(t, "%s\ta night\t\t%.0f\t%.0f\t\t%.2f ms/KB\n", r.Robot, r.KB, r.KB*r.Distance, r.Distance)
				}
				return t.Flush()
			})
		}),
	})
}

func showRates(cmd *cobra.Command, c *client.Client) error {
	var answer manager.RatesResponse
	if err := c.Do(cmd.Context(), http.MethodGet, api.PathAdminBalance+"/rates", nil, &answer); err != nil {
		return err
	}
	return show(cmd, answer, func(w io.Writer) error {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintf(t, "robot\thour (%s)\trequests\tKB/s of a transfer\n", answer.Zone)
		for _, r := range answer.Rates {
			fmt.Fprintf(t, "%s\t%s %02dh\t%d\t%.1f\n", r.Robot, r.Weekday, r.Hour, r.Requests, r.KBs)
		}
		return t.Flush()
	})
}
