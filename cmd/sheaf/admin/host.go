package admin

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"sheaf/internal/route"
	"sheaf/manager"
	"sheaf/manager/hosts"
	"sheaf/serve/client"
)

func HostCommand() *cobra.Command {
	cmd := OperatorFlags(&cobra.Command{Use: "host", Short: "Add, list and remove the hosts that are collected, and take archives down"})
	cmd.AddCommand(hostAddCommand(), hostListCommand(), hostShowCommand(), hostSetCommand(), hostAssignCommand(), hostRemoveCommand(), hostCrawlCommand(),
		hostDecideCommand("accept", "Accept hosts that robots found and that wait for a decision", hosts.Accepted),
		hostDecideCommand("refuse", "Refuse hosts that robots found and that wait for a decision", hosts.Refused),
		hostDomainCommand(), hostPrefixCommand(), hostTakedownCommand(), hostRestoreCommand(), hostTakedownsCommand())
	return cmd
}

func hostSetCommand() *cobra.Command {
	var want hosts.IntervalRequest
	var pages int
	cmd := &cobra.Command{
		Use:   "set HOST… [--interval TIME] [--shortest TIME] [--pages N] --reason TEXT",
		Short: "Set hosts' visit interval, as agreed with their owners",
		Long: `Set the time between two visits to the addresses of hosts, because their owners allow a shorter one
or ask for a longer one. If several hosts share an address, the longest of their intervals holds there:
a shorter one takes effect when it is set for all of them. A Crawl-delay in the host's robots.txt, a
Retry-After and trouble of the server lengthen it as usual. Robots that share the host share the
interval. With --interval 0s each robot's own holds again.

With --shortest the interval adapts: it gets shorter, down to this time, while the server's answers stay
as quick as usual, and longer again when they slow down or fail. Without it an interval that was set is
not shortened. With --shortest 0s it stays as it is set.

With --pages a visit may fetch several pages over one connection, one after the other (Keep-Alive), and
the interval lies between the visits. A visit ends when the server closes the connection, answers badly
or asks for a delay. With --pages 0 each robot's own number holds again, which is 1 unless its site has
set another.`,
		Args: cobra.MinimumNArgs(1),
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			want.Hosts = args
			if cmd.Flags().Changed("pages") {
				want.Pages = &pages
			}
			return tell(cmd, c, manager.SetInterval, want)
		}),
	}
	cmd.Flags().StringVar(&want.Interval, "interval", "", "time between the end of a visit and the next, such as 5s; 0s: each robot's own")
	cmd.Flags().StringVar(&want.Shortest, "shortest", "", "how short the interval may get while the server stays quick, such as 2s; 0s: no shorter than it is set")
	cmd.Flags().IntVar(&pages, "pages", 0, "pages of a visit, over one connection; 0: each robot's own number")
	cmd.Flags().StringVar(&want.Reason, "reason", "", "who allows or asks for it")
	cmd.MarkFlagsOneRequired("interval", "shortest", "pages")
	return cmd
}

func hostRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm HOST…",
		Short: "Stop collecting hosts; what is archived of them stays",
		Args:  cobra.MinimumNArgs(1),
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			return forEach(args, func(host string) error {
				return tell(cmd, c, manager.RemoveHost, host)
			})
		}),
	}
}

// forEach calls do with each name. It goes on after an error, and returns all errors.
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
		Short: "Have hosts visited now, by the robots that collect them",
		Long: `Have hosts visited now. Each robot is told with its next heartbeat. It visits the host's start pages
and up to 1,000 pages that it knows before all others, as soon as its hours and the interval allow.`,
		Args: cobra.MinimumNArgs(1),
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			request := manager.VisitRequest{Hosts: args}
			return ask(cmd, c, manager.VisitHosts, request, func(w io.Writer, answer manager.VisitResponse) {
				for _, host := range args {
					robots := strings.Join(answer.Robots[host], " and ")
					if robots == "" {
						robots = "the robot that gets it; no robot has it now"
					}
					fmt.Fprintf(w, "%s: ordered of %s\n", host, robots)
				}
			})
		}),
	}
}

// hostDecideCommand returns a command that decides about pending hosts.
func hostDecideCommand(verb, short string, state hosts.State) *cobra.Command {
	decision := hosts.DecideRequest{State: state}
	cmd := &cobra.Command{
		Use:   verb + " HOST… | --all | --domain DOMAIN | --found-by ROBOT | --part TEXT",
		Short: short,
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			decision.Hosts = args
			if len(args) == 0 && !decision.All && decision.Domain == "" && decision.FoundBy == "" && decision.Part == "" {
				return errors.New("which hosts? Name them, or give --all, --domain, --found-by or --part; sheaf host ls --state pending lists those that wait")
			}
			return ask(cmd, c, manager.DecideHosts, decision, func(w io.Writer, done manager.DecideResponse) {
				fmt.Fprintf(w, "%d hosts %s\n", done.Hosts, state)
			})
		}),
	}
	cmd.Flags().BoolVar(&decision.All, "all", false, "all hosts that wait")
	cmd.Flags().StringVar(&decision.Domain, "domain", "", "the hosts of this domain, such as ac.jp")
	cmd.Flags().StringVar(&decision.FoundBy, "found-by", "", "the hosts that this robot found")
	cmd.Flags().StringVar(&decision.Part, "part", "", "the hosts with this in their names")
	return cmd
}

func hostDomainCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "domain", Short: "Domains whose hosts robots leave out, also those that they find later"}
	list := onAll("ls", "List the domains that are refused", manager.ListDomains, func(w io.Writer, answer manager.DomainsResponse) {
		Table(w, "domain\tsince\tby\treason", answer.Domains, func(d hosts.RefusedDomain) []any {
			return []any{d.Domain, Moment(d.Since), d.By, d.Reason}
		})
	})
	refuse := refuseCommand("refuse DOMAIN", "Have robots leave out all hosts of a domain; what is archived of them stays", manager.RefuseDomain,
		func(domain, by, reason string) hosts.RefusedDomain {
			return hosts.RefusedDomain{Domain: domain, By: by, Reason: reason}
		})
	allow := onOne("allow DOMAIN", "End that; hosts that are refused already stay so until sheaf host add", manager.AllowDomain, nil)
	cmd.AddCommand(list, refuse, allow)
	return cmd
}

func hostPrefixCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "prefix", Short: "Parts of hosts that robots leave out: pages whose URL begins with a prefix"}
	list := onAll("ls", "List the prefixes that are refused", manager.ListPrefixes, func(w io.Writer, answer manager.PrefixesResponse) {
		Table(w, "prefix\tsince\tby\treason", answer.Prefixes, func(p hosts.RefusedPrefix) []any {
			return []any{p.URL, Moment(p.Since), p.By, p.Reason}
		})
	})
	refuse := refuseCommand("refuse URL", "Have robots leave out the pages whose URL begins so; what is archived of them stays", manager.RefusePrefix,
		func(url, by, reason string) hosts.RefusedPrefix {
			return hosts.RefusedPrefix{URL: url, By: by, Reason: reason}
		})
	allow := &cobra.Command{
		Use: "allow URL", Short: "Let robots collect these pages again", Args: cobra.ExactArgs(1),
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			return tell(cmd, c, manager.AllowPrefix, manager.PrefixQuery{URL: args[0]})
		}),
	}
	cmd.AddCommand(list, refuse, allow)
	return cmd
}

// refuseCommand returns a command that tells robots what to leave out. The request also says who
// decides, and why.
func refuseCommand[In any](use, short string, op route.Op[In, route.None], request func(what, by, reason string) In) *cobra.Command {
	var by, reason string
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			return tell(cmd, c, op, request(args[0], by, reason))
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	cmd.Flags().StringVar(&by, "by", os.Getenv("USER"), "who decides (USER)")
	return cmd
}

func hostListCommand() *cobra.Command {
	var q manager.HostsQuery
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List hosts and the robots that collect them",
		Args:  cobra.NoArgs,
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			var list []hosts.Host
			for {
				page, err := client.Call(cmd.Context(), c, manager.ListHosts, q)
				if err != nil {
					return err
				}
				list = append(list, page.Hosts...)
				if q.After = page.Next; q.After == "" {
					break
				}
			}
			return Show(cmd, list, func(w io.Writer) {
				Table(w, "host\tstate\trobot\tfound by\tlast visit\tstatus\tpages\tbytes\tno answer", list, func(h hosts.Host) []any {
					var last hosts.LastVisit
					if len(h.Visits) > 0 {
						last = h.Visits[0]
					}
					return []any{h.Name, h.State, robotsOf(h), cmp.Or(h.Source, "operator"), Moment(last.At), last.Status, last.Pages, last.Bytes, last.Why}
				})
			})
		}),
	}
	cmd.Flags().StringVar((*string)(&q.State), "state", "", "only hosts in this state: accepted, pending or refused")
	cmd.Flags().StringVar(&q.Part, "part", "", "only hosts with this in their names")
	cmd.Flags().StringVar(&q.Domain, "domain", "", "only this host and all below it")
	cmd.Flags().StringVar(&q.Robot, "robot", "", "only hosts that this robot has")
	cmd.Flags().StringVar(&q.FoundBy, "found-by", "", "only hosts that this robot found")
	cmd.Flags().BoolVar(&q.Unanswered, "unanswered", false, "only hosts whose last visit got no answer")
	return cmd
}

// robotsOf names the robots that collect a host, and the robot to which an operator has assigned
// it.
func robotsOf(h hosts.Host) string {
	robots := strings.Join(h.Robots, " ")
	if h.Pinned != "" {
		robots = strings.TrimSpace(robots + " (assigned to " + h.Pinned + ")")
	}
	return robots
}

func hostAssignCommand() *cobra.Command {
	var want hosts.AssignRequest
	var auto bool
	cmd := &cobra.Command{
		Use:   "assign HOST… ROBOT --reason TEXT | assign HOST… --auto",
		Short: "Say which robot collects hosts, or leave that to the plan again",
		Long: `Say which robot collects hosts. Levelling leaves them there. All hosts at one address go to one robot, so
the others at these addresses go with them. A robot that has a host gives it up with its next heartbeat,
and only then the other visits it. While the robot takes no part, others collect its hosts; it gets them
back when it is heard of again. With --auto the plan decides again.`,
		Args: cobra.MinimumNArgs(1),
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			want.Hosts = args
			if !auto {
				if len(args) < 2 {
					return errors.New("which robot? Name it after the hosts, or give --auto")
				}
				want.Hosts, want.Robot = args[:len(args)-1], args[len(args)-1]
			}
			return ask(cmd, c, manager.AssignHosts, want, func(w io.Writer, done hosts.AssignResponse) {
				fmt.Fprintf(w, "%d hosts assigned to %s: %s\n", len(done.Hosts), cmp.Or(want.Robot, "whichever robot the plan chooses"), strings.Join(done.Hosts, " "))
			})
		}),
	}
	cmd.Flags().StringVar(&want.Reason, "reason", "", "why this robot (required with a robot)")
	cmd.Flags().BoolVar(&auto, "auto", false, "take it back: the plan decides")
	return cmd
}

func hostShowCommand() *cobra.Command {
	return onOne("show HOST", "Show a host: who collects it and how, and what its last visits have shown", manager.ShowHost, func(w io.Writer, h hosts.Host) {
		fact := func(name, value string) {
			if value != "" {
				fmt.Fprintf(w, "%-10s %s\n", name, value)
			}
		}
		fact("host", h.Name)
		fact("state", string(h.State))
		fact("robots", robotsOf(h))
		fact("assigned", h.PinReason)
		fact("addresses", strings.Join(h.Addresses, " "))
		fact("found by", cmp.Or(h.Source, "operator")+" at "+Moment(h.Created))
		fact("interval", h.Interval)
		fact("shortest", h.Shortest)
		if h.Pages > 0 {
			fact("pages", strconv.Itoa(h.Pages)+" a visit")
		}
		fact("reason", h.Reason)
		fact("seeds", strings.Join(h.Seeds, " "))
		if len(h.Visits) == 0 {
			fmt.Fprintln(w, "\nno robot has told of a visit")
			return
		}
		fmt.Fprintln(w)
		Table(w, "robot\tlast visit\tstatus\tpages\tbytes\tno answer", h.Visits, func(v hosts.LastVisit) []any {
			return []any{v.Robot, Moment(v.At), v.Status, v.Pages, v.Bytes, v.Why}
		})
	})
}
