package admin

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"sheaf/archive/upkeep"
	"sheaf/internal/commandline"
	"sheaf/manager"
	"sheaf/manager/hosts"
	"sheaf/serve/client"
)

func HostCommand() *cobra.Command {
	cmd := OperatorFlags(&cobra.Command{Use: "host", Short: "Add, list and remove the hosts that are collected, and take archives down"})
	cmd.AddCommand(hostAddCommand(), hostListCommand(), hostShowCommand(), hostSetCommand(), hostAssignCommand(), each(&cobra.Command{Use: "rm HOST…", Short: "Stop collecting hosts; what is archived of them stays"}, manager.RemoveHost), hostCrawlCommand(),
		hostDecideCommand("accept", "Accept hosts that robots found and that wait for a decision", hosts.Accepted),
		hostDecideCommand("refuse", "Refuse hosts that robots found and that wait for a decision", hosts.Refused),
		hostDomainCommand(), hostPrefixCommand(),
		takedownCommand("takedown", "Take down a host, also what is collected later; or only one edition of it, or the pages below a URL",
			upkeep.TakeDown, "%s is taken down from version %d on\n"),
		takedownCommand("restore", "Lift a take-down; what was deleted meanwhile does not come back",
			upkeep.Lift, "%s is there again from version %d on\n"), hostTakedownsCommand())
	return cmd
}

func hostSetCommand() *cobra.Command {
	var want hosts.IntervalRequest
	cmd := asking(&cobra.Command{
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
		PreRun: func(_ *cobra.Command, args []string) { want.Hosts = args },
	}, manager.SetInterval, &want, "interval shortest pages reason", nil)
	cmd.MarkFlagsOneRequired("interval", "shortest", "pages")
	return cmd
}

func hostCrawlCommand() *cobra.Command {
	var request manager.VisitRequest
	return asking(&cobra.Command{
		Use:   "crawl HOST…",
		Short: "Have hosts visited now, by the robots that collect them",
		Long: `Have hosts visited now. Each robot is told with its next heartbeat. It visits the host's start pages
and up to 1,000 pages that it knows before all others, as soon as its hours and the interval allow.`,
		PreRun: func(_ *cobra.Command, args []string) { request.Hosts = args },
	}, manager.VisitHosts, &request, "", func(w io.Writer, answer manager.VisitResponse) {
		for _, host := range request.Hosts {
			robots := cmp.Or(strings.Join(answer.Robots[host], " and "), "the robot that gets it; no robot has it now")
			fmt.Fprintf(w, "%s: ordered of %s\n", host, robots)
		}
	})
}

// hostDecideCommand returns a command that decides about pending hosts.
func hostDecideCommand(verb, short string, state hosts.State) *cobra.Command {
	decision := hosts.DecideRequest{State: state}
	return asking(&cobra.Command{
		Use:   verb + " HOST… | --all | --domain DOMAIN | --found-by ROBOT | --part TEXT",
		Short: short,
		Args:  cobra.ArbitraryArgs,
		PreRunE: func(_ *cobra.Command, args []string) error {
			decision.Hosts = args
			if len(args) == 0 && !decision.All && decision.Domain == "" && decision.FoundBy == "" && decision.Part == "" {
				return errors.New("which hosts? Name them, or give --all, --domain, --found-by or --part; sheaf host ls --state pending lists those that wait")
			}
			return nil
		},
	}, manager.DecideHosts, &decision, "all domain found_by part", func(w io.Writer, done manager.DecideResponse) {
		fmt.Fprintf(w, "%d hosts %s\n", done.Hosts, state)
	})
}

func hostDomainCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "domain", Short: "Domains whose hosts robots leave out, also those that they find later"}
	list := asks("ls", "List the domains that are refused", manager.ListDomains, func(w io.Writer, answer manager.DomainsResponse) {
		Table(w, "domain\tsince\tby\treason", answer.Domains, func(d hosts.RefusedDomain) []any {
			return []any{d.Domain, Moment(d.Since), d.By, d.Reason}
		})
	})
	var refused hosts.RefusedDomain
	refuse := asking(&cobra.Command{
		Use:    "refuse DOMAIN",
		Short:  "Have robots leave out all hosts of a domain; what is archived of them stays",
		PreRun: func(_ *cobra.Command, args []string) { refused.Domain = args[0] },
	}, manager.RefuseDomain, &refused, "reason by=$USER", nil)
	allow := asks("allow DOMAIN", "End that; hosts that are refused already stay so until sheaf host add", manager.AllowDomain, nil)
	cmd.AddCommand(list, refuse, allow)
	return cmd
}

func hostPrefixCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "prefix", Short: "Parts of hosts that robots leave out: pages whose URL begins with a prefix"}
	list := asks("ls", "List the prefixes that are refused", manager.ListPrefixes, func(w io.Writer, answer manager.PrefixesResponse) {
		Table(w, "prefix\tsince\tby\treason", answer.Prefixes, func(p hosts.RefusedPrefix) []any {
			return []any{p.URL, Moment(p.Since), p.By, p.Reason}
		})
	})
	var refused hosts.RefusedPrefix
	refuse := asking(&cobra.Command{
		Use:    "refuse URL",
		Short:  "Have robots leave out the pages whose URL begins so; what is archived of them stays",
		PreRun: func(_ *cobra.Command, args []string) { refused.URL = args[0] },
	}, manager.RefusePrefix, &refused, "reason by=$USER", nil)
	var allowed manager.PrefixQuery
	allow := asking(&cobra.Command{
		Use:    "allow URL",
		Short:  "Let robots collect these pages again",
		PreRun: func(_ *cobra.Command, args []string) { allowed.URL = args[0] },
	}, manager.AllowPrefix, &allowed, "", nil)
	cmd.AddCommand(list, refuse, allow)
	return cmd
}

func hostListCommand() *cobra.Command {
	var q manager.HostsQuery
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List hosts and the robots that collect them",
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
	commandline.Flags(cmd, &q, "state part domain robot found_by unanswered")
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
	cmd := asking(&cobra.Command{
		Use:   "assign HOST… ROBOT --reason TEXT | assign HOST… --auto",
		Short: "Say which robot collects hosts, or leave that to the plan again",
		Long: `Say which robot collects hosts. Levelling leaves them there. All hosts at one address go to one robot, so
the others at these addresses go with them. A robot that has a host gives it up with its next heartbeat,
and only then the other visits it. While the robot takes no part, others collect its hosts; it gets them
back when it is heard of again. With --auto the plan decides again.`,
		PreRunE: func(_ *cobra.Command, args []string) error {
			want.Hosts = args
			if !auto {
				if len(args) < 2 {
					return errors.New("which robot? Name it after the hosts, or give --auto")
				}
				want.Hosts, want.Robot = args[:len(args)-1], args[len(args)-1]
			}
			return nil
		},
	}, manager.AssignHosts, &want, "reason", func(w io.Writer, done hosts.AssignResponse) {
		fmt.Fprintf(w, "%d hosts assigned to %s: %s\n", len(done.Hosts), cmp.Or(want.Robot, "whichever robot the plan chooses"), strings.Join(done.Hosts, " "))
	})
	cmd.Flags().BoolVar(&auto, "auto", false, "take it back: the plan decides")
	return cmd
}

func hostShowCommand() *cobra.Command {
	return asks("show HOST", "Show a host: who collects it and how, and what its last visits have shown", manager.ShowHost, func(w io.Writer, h hosts.Host) {
		pages := ""
		if h.Pages > 0 {
			pages = strconv.Itoa(h.Pages) + " a visit"
		}
		facts(w, [][2]string{
			{"host", h.Name}, {"state", string(h.State)}, {"robots", robotsOf(h)}, {"assigned", h.PinReason}, {"addresses", strings.Join(h.Addresses, " ")},
			{"found by", cmp.Or(h.Source, "operator") + " at " + Moment(h.Created)}, {"interval", h.Interval}, {"shortest", h.Shortest},
			{"pages", pages}, {"reason", h.Reason}, {"seeds", strings.Join(h.Seeds, " ")},
		})
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

// A list of hosts is sent in parts, each smaller than the largest body that the service reads.
const (
	addURLs  = 10_000  // most URLs of a part
	addBytes = 800_000 // most bytes of a part's URLs
)

func hostAddCommand() *cobra.Command {
	var want manager.HostsRequest
	cmd := &cobra.Command{
		Use:   "add URL…",
		Short: "Add hosts by the URLs to start from; with - as URL, read them from standard input",
		Long: `Add hosts by the URLs to start from. With - as URL they are read from standard input, with blanks or
line ends between them. A long list is sent in parts of 10,000 URLs, and each part is entered whole or
not at all. After an error the command may be run again with the same list: hosts that are known
already keep what they have.`,
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			urls, failed := slices.Values(args), func() error { return nil }
			if len(args) == 1 && args[0] == "-" {
				urls, failed = words(cmd.InOrStdin())
			}
			var sum hosts.Report
			sent := 0
			for part := range parts(urls) {
				request := want
				request.Hosts = part
				report, err := client.Call(cmd.Context(), c, manager.AddHosts, request)
				if err != nil {
					return fmt.Errorf("URLs %d to %d: %w", sent+1, sent+len(part), err)
				}
				sent += len(part)
				sum.Accepted, sum.Known = sum.Accepted+report.Accepted, sum.Known+report.Known
				if sent > addURLs || len(part) == addURLs {
					fmt.Fprintf(cmd.ErrOrStderr(), "%d URLs entered\n", sent)
				}
			}
			if err := failed(); err != nil {
				return fmt.Errorf("standard input, after %d URLs: %w", sent, err)
			}
			return Show(cmd, sum, func(w io.Writer) {
				fmt.Fprintf(w, "%d hosts added, %d known before\n", sum.Accepted, sum.Known)
			})
		}),
	}
	commandline.Flags(cmd, &want, "copies parts")
	return cmd
}

// words returns the words of a text, and a function. After the last word the function returns the
// error of reading the text, or nil.
func words(r io.Reader) (iter.Seq[string], func() error) {
	s := bufio.NewScanner(r)
	s.Split(bufio.ScanWords)
	return func(yield func(string) bool) {
		for s.Scan() && yield(s.Text()) {
		}
	}, s.Err
}

// parts divides a list of URLs into parts for sending.
func parts(urls iter.Seq[string]) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		var part []string
		size := 0
		for u := range urls {
			if len(part) == addURLs || len(part) > 0 && size+len(u) > addBytes {
				if !yield(part) {
					return
				}
				part, size = nil, 0
			}
			part, size = append(part, strings.Clone(u)), size+len(u)
		}
		if len(part) > 0 {
			yield(part)
		}
	}
}
