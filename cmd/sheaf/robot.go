package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sheaf/cmd/sheaf/operator"
	"sheaf/manager"
)

func robotCommand() *cobra.Command {
	cmd := operatorFlags(&cobra.Command{Use: "robot", Short: "Admit, list, restart and revoke robots"})
	cmd.AddCommand(
		&cobra.Command{
			Use:   "add NAME",
			Short: "Admit a robot: prints the command with which it joins",
			Args:  cobra.ExactArgs(1),
			RunE: asOperator(func(cmd *cobra.Command, c *operator.Client, args []string) error {
				var answer manager.AdmitResponse
				if err := c.Do(cmd.Context(), http.MethodPost, manager.PathAdminRobots, manager.AdmitRequest{Name: args[0]}, &answer); err != nil {
					return err
				}
				return show(cmd, answer, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "robotd join %s %s\n\nRun this once at the robot's site, until %s. Where the robot reaches this service under another address, put that in.\n",
						c.URL, answer.Token, answer.Expires.Local().Format(time.DateTime))
					return err
				})
			}),
		},
		&cobra.Command{
			Use:   "ls",
			Short: "List the robots",
			Args:  cobra.NoArgs,
			RunE: asOperator(func(cmd *cobra.Command, c *operator.Client, args []string) error {
				var answer manager.RobotsResponse
				if err := c.Do(cmd.Context(), http.MethodGet, manager.PathAdminRobots, nil, &answer); err != nil {
					return err
				}
				return show(cmd, answer, func(w io.Writer) error {
					tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
					fmt.Fprintln(tw, "robot\tstate\thosts\tgeneration\tversion\tlast seen")
					for _, r := range answer.Robots {
						fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%s\t%s\n", r.Name, robotState(r), r.Hosts, r.Generation, r.Version, moment(r.Seen))
					}
					return tw.Flush()
				})
			}),
		},
		robotAction("restart NAME", "Let a robot seal what it has, drop its list and fetch it anew", http.MethodPost, "/restart"),
		robotAction("pause NAME", "Let a robot begin no further page; it goes on uploading", http.MethodPost, "/pause"),
		robotAction("resume NAME", "Let a paused robot go on", http.MethodPost, "/resume"),
		robotAction("revoke NAME", "Take a robot's credentials away; its hosts go to others", http.MethodDelete, ""),
	)
	return cmd
}

func robotAction(use, short, method, suffix string) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: asOperator(func(cmd *cobra.Command, c *operator.Client, args []string) error {
			return c.Do(cmd.Context(), method, manager.PathAdminRobots+"/"+url.PathEscape(args[0])+suffix, nil, nil)
		}),
	}
}

func robotState(r manager.Robot) string {
	switch {
	case !r.Revoked.IsZero():
		return "revoked"
	case r.Joined.IsZero():
		return "admitted"
	case !r.Subscribed:
		return "away"
	case !r.Lapsed.IsZero():
		return "silent"
	case r.Paused:
		return "paused"
	}
	return "subscribed"
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}
