package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"sheaf/internal/api"
	"sheaf/manager"
	"sheaf/manager/hosts"
	"sheaf/serve/client"
)

func hostCommand() *cobra.Command {
	cmd := operatorFlags(&cobra.Command{Use: "host", Short: "Add, list and remove the hosts that are collected, and take archives down"})
	cmd.AddCommand(hostAddCommand(), hostListCommand(), hostRemoveCommand(), hostCrawlCommand(),
		hostDecideCommand("accept", "Have hosts collected that robots found and that wait for a decision", hosts.Accepted),
		hostDecideCommand("refuse", "Refuse hosts that robots found and that wait for a decision", hosts.Refused),
		hostTakedownCommand(), hostRestoreCommand(), hostTakedownsCommand())
	return cmd
}

func hostRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm HOST…",
		Short: "Collect hosts no more; what is archived of them stays",
		Args:  cobra.MinimumNArgs(1),
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			return forEach(args, func(host string) error {
				return c.Do(cmd.Context(), http.MethodDelete, api.PathAdminHosts+"/"+url.PathEscape(host), nil, nil)
			})
		}),
	}
}

// forEach does something with each name. What fails does not keep it from the others.
func forEach(names []string, do func(name string) error) error {
	var errs []error
	for _, name := range names {
		if err := do(name); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func hostCrawlCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "crawl HOST…",
		Short: "Have hosts visited now, by the robots that have them",
		Long: "The robot is told with its next heartbeat. It visits the host's start pages and up to 1,000 known ones before\n" +
			"all others, as soon as its hours and the interval allow it.",
		Args: cobra.MinimumNArgs(1),
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			var answer manager.VisitResponse
			if err := c.Do(cmd.Context(), http.MethodPost, api.PathAdminHosts+"/visit", manager.VisitRequest{Hosts: args}, &answer); err != nil {
				return err
			}
			return show(cmd, answer, func(w io.Writer) error {
				for _, host := range args {
					robots := strings.Join(answer.Robots[host], " and ")
					if robots == "" {
						robots = "the robot that gets it; no robot has it now"
					}
					if _, err := fmt.Fprintf(w, "%s: ordered of %s\n", host, robots); err != nil {
						return err
					}
				}
				return nil
			})
		}),
	}
}

// hostDecideCommand decides about hosts that are pending.
func hostDecideCommand(verb, short string, state hosts.State) *cobra.Command {
	decision := hosts.DecideRequest{State: state}
	cmd := &cobra.Command{
		Use:   verb + " HOST… | --all | --domain DOMAIN | --found-by ROBOT",
		Short: short,
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			decision.Hosts = args
			if len(args) == 0 && !decision.All && decision.Domain == "" && decision.FoundBy == "" {
				return fmt.Errorf("which hosts? Name them, or give --all, --domain or --found-by; sheaf host ls --state pending lists those that wait")
			}
			var done manager.DecideResponse
			if err := c.Do(cmd.Context(), http.MethodPost, api.PathAdminHosts+"/decide", decision, &done); err != nil {
				return err
			}
			return show(cmd, done, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%d hosts %s\n", done.Hosts, state)
				return err
			})
		}),
	}
	cmd.Flags().BoolVar(&decision.All, "all", false, "all that wait")
	cmd.Flags().StringVar(&decision.Domain, "domain", "", "those of this domain, such as ac.jp")
	cmd.Flags().StringVar(&decision.FoundBy, "found-by", "", "those that this robot found")
	return cmd
}

func hostAddCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add URL…",
		Short: "Add hosts by the URLs to start from; several URLs may be of one host; - reads them from standard input",
		Args:  cobra.MinimumNArgs(1),
	}
	copies := cmd.Flags().Int("copies", 0, "give each host to so many robots, which then collect all of it, and compare what they bring; 1: to one, as usual")
	parts := cmd.Flags().Int("parts", 0, "share each host's URLs out among so many robots; 1: leave it to the plan, which does so where one robot's night is too short")
	cmd.RunE = asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
		if len(args) == 1 && args[0] == "-" {
			text, err := io.ReadAll(cmd.InOrStdin())
			if err != nil {
				return err
			}
			args = strings.Fields(string(text))
		}
		var report hosts.Report
		if err := c.Do(cmd.Context(), http.MethodPost, api.PathAdminHosts, manager.HostsRequest{Hosts: args, Copies: *copies, Parts: *parts}, &report); err != nil {
			return err
		}
		return show(cmd, report, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%d hosts added, %d known before\n", report.Accepted, report.Known)
			return err
		})
	})
	return cmd
}

func hostListCommand() *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List hosts and who collects them",
		Args:  cobra.NoArgs,
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			var list []hosts.Host
			for query := (url.Values{"state": {state}}); ; {
				var page manager.HostsResponse
				if err := c.Do(cmd.Context(), http.MethodGet, api.PathAdminHosts+"?"+query.Encode(), nil, &page); err != nil {
					return err
				}
				list = append(list, page.Hosts...)
				if page.Next == "" {
					break
				}
				query.Set("after", page.Next)
			}
			return show(cmd, list, func(w io.Writer) error {
				tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				fmt.Fprintln(tw, "host\tstate\trobot\taddresses\tfound by")
				for _, h := range list {
					fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", h.Name, h.State, strings.Join(h.Robots, " "), strings.Join(h.Addresses, " "), orOperator(h.Source))
				}
				return tw.Flush()
			})
		}),
	}
	cmd.Flags().StringVar(&state, "state", "", "only accepted, pending or refused ones")
	return cmd
}

func orOperator(source string) string {
	if source == "" {
		return "operator"
	}
	return source
}
