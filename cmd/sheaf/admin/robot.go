package admin

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sheaf/archive/upkeep"
	"sheaf/internal/api"
	"sheaf/internal/peer"
	"sheaf/internal/route"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/manager/roster"
	"sheaf/serve/client"
)

func RobotCommand() *cobra.Command {
	cmd := OperatorFlags(&cobra.Command{Use: "robot", Short: "Admit, list, restart and revoke robots"})
	cmd.AddCommand(robotAddCommand(), robotListCommand(),
		robotPageCommand(),
		asks("restart NAME", "Make a robot seal what it has, and fetch its list of hosts again", manager.RestartRobot, nil),
		asks("pause NAME", "Let a robot fetch no more pages; it goes on uploading", manager.PauseRobot, nil),
		asks("resume NAME", "Let a paused robot go on", manager.ResumeRobot, nil),
		asks("upgrade NAME", "Make a robot look for its release now, instead of at its next poll", manager.UpgradeRobot, nil),
		robotDeadCommand(),
		robotRevokeCommand(), robotRestoreCommand(), asking(&cobra.Command{Use: "rm NAME", Short: "Remove a robot that was revoked, or never joined, from the list; what it collected stays"},
			manager.EndRobot, &manager.RobotEnd{Forget: true}, "", nil))
	return cmd
}

func robotListCommand() *cobra.Command {
	return asks("ls", "List the robots", manager.ListRobots, func(w io.Writer, answer manager.RobotsResponse) {
		Table(w, "robot\tstate\thosts\tgeneration\tversion\trelease\tlast seen", answer.Robots, func(r roster.Robot) []any {
			return []any{r.Name, robotState(r), r.Hosts, r.Generation, r.Version, robotRelease(r), Moment(r.Seen)}
		})
		for _, r := range answer.Robots {
			for _, t := range r.Troubles {
				fmt.Fprintf(w, "%s: %s: %s\n", r.Name, t.Kind, cmp.Or(t.Detail, "since "+Moment(t.Since)))
			}
			if r.Refused.Why != "" {
				fmt.Fprintf(w, "%s was turned away from %s to %s: %s\n", r.Name, Moment(r.Refused.Since), Moment(r.Refused.At), r.Refused.Why)
			}
		}
		if s := answer.Stopped; s != nil {
			fmt.Fprintf(w, "the roll-out of release %d is stopped: %s\n", s.Counter, s.Stopped)
		}
		for _, odd := range answer.Odd {
			if odd.Odd {
				fmt.Fprintf(w, "%s is given other pages of %s than its peers: %d of %d that were compared, such as %s; time does not explain it\n",
					odd.Robot, odd.Host, odd.Differing, odd.Compared, odd.Example)
			}
		}
	})
}

func robotAddCommand() *cobra.Command {
	var contact, public string
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Admit a robot, and print the command that installs it and makes it join",
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			if contact != "" {
				if err := wire.CheckContact(contact); err != nil {
					return fmt.Errorf("--contact %s: %w", contact, err)
				}
			}
			answer, err := client.Call(cmd.Context(), c, manager.AdmitRobot, manager.AdmitRequest{Name: args[0]})
			if err != nil {
				return err
			}
			answer.URL = strings.TrimRight(cmp.Or(public, answer.URL, c.URL.String()), "/")
			return Show(cmd, answer, func(w io.Writer) {
				line := fmt.Sprintf("robotd join %s %s", answer.URL, answer.Token)
				if answer.Install.Counter > 0 {
					line = installLine(answer, contact)
				}
				fmt.Fprintf(w, "%s\n\nRun this at the robot's site before %s; its token works once.\n", line, answer.Expires.Local().Format(time.DateTime))
				if answer.Install.Counter == 0 {
					fmt.Fprintf(w, "With the package sheaf-robot: sudo -u sheaf-robot %s --config /etc/sheaf-robot/robotd.yaml\n"+
						"For a command that installs the robot too, run this first: %s\n", line, answer.Install.Missing)
				}
				warnOfAddress(cmd.Context(), w, answer.URL)
			})
		}),
	}
	cmd.Flags().StringVar(&contact, "contact", "", "URL or mail address of the people at the robot's site (default: the installation asks for it)")
	cmd.Flags().StringVar(&public, "public", "", "URL under which the robot reaches the service (default: the service's setting http.public)")
	return cmd
}

// installLine returns the command that installs a robot. It contains the digests of the script and
// of the release. So only the line itself must be trusted, and no download.
func installLine(a manager.AdmitResponse, contact string) string {
	line := fmt.Sprintf("curl -fsSLo install-robot.sh %s%s && echo '%s  install-robot.sh' | sha256sum -c && sudo sh install-robot.sh --url %s --token %s --release %d:%s",
		a.URL, wire.PathInstaller, a.Install.Script, a.URL, a.Token, a.Install.Counter, a.Install.Release)
	if contact != "" {
		line += " --contact '" + strings.ReplaceAll(contact, "'", `'\''`) + "'"
	}
	return line
}

// certificateTime is how long a service may take to show its certificate.
const certificateTime = 5 * time.Second

// warnOfAddress writes a warning if other machines cannot use the service's address, as far as this
// machine can tell.
func warnOfAddress(ctx context.Context, w io.Writer, address string) {
	u, err := url.Parse(address)
	if err == nil && peer.IsLoopback(u.Hostname()) {
		fmt.Fprintf(w, "Only this machine reaches %s: for others set http.public.\n", address)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, certificateTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+api.PathLive, nil)
	if err != nil {
		return
	}
	answer, err := http.DefaultClient.Do(r)
	if err == nil {
		answer.Body.Close()
	} else if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		fmt.Fprintf(w, "The certificate of %s is not trusted here: %v. Other machines need that of its authority among theirs first\n"+
			"(Debian: a .crt in /usr/local/share/ca-certificates, then update-ca-certificates).\n", address, err)
	}
}

func robotPageCommand() *cobra.Command {
	var revoke bool
	cmd := &cobra.Command{
		Use:   "page NAME",
		Short: "Print the link to the page that shows a robot to the people at its site",
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			op := manager.ShowPage
			if revoke {
				op = manager.RevokePage
			}
			return ask(cmd, c, op, args[0], func(w io.Writer, page manager.PageResponse) {
				if strings.HasPrefix(page.URL, "/") {
					page.URL = strings.TrimRight(c.URL.String(), "/") + page.URL
				}
				fmt.Fprintln(w, page.URL)
				if u, err := url.Parse(page.URL); err == nil {
					warnOfAddress(cmd.Context(), w, u.Scheme+"://"+u.Host)
				}
			})
		}),
	}
	cmd.Flags().BoolVar(&revoke, "revoke", false, "void the old link, and print a new one")
	return cmd
}

func robotRevokeCommand() *cobra.Command {
	var since, reason string
	cmd := &cobra.Command{
		Use:   "revoke NAME [--since TIME --reason TEXT]",
		Short: "Revoke a robot's credentials; its hosts go to other robots when its lease is over",
		Long: `Revoke a robot's credentials. Its hosts go to other robots when its lease is over.

With --since, what it has published since that time is taken down as well: its key may have been in
others' hands. Its batches that came later and are not published yet go to the quarantine, and nobody
gets its name again. The command may be repeated, if it was broken off. "sheaf robot restore" lifts
the take-down.`,
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			if since == "" {
				return tell(cmd, c, manager.EndRobot, manager.RobotEnd{Name: args[0]})
			}
			at, err := time.Parse(time.RFC3339, since)
			if err != nil {
				return fmt.Errorf("--since %q is no time; write one such as 2026-11-21T03:00:00Z", since)
			}
			if strings.TrimSpace(reason) == "" {
				return errors.New("say with --reason why what the robot has published is taken down; that is kept for ever")
			}
			if err := tell(cmd, c, manager.EndRobot, manager.RobotEnd{Name: args[0], Since: since}); err != nil {
				return err
			}
			t := upkeep.TakedownRequest{Robot: args[0], Since: at, Reason: reason}
			return ask(cmd, c, upkeep.TakeDown, t, printTakedown(&t, "what %s brought since then is taken down from version %d on, of %d hosts\n"))
		}),
	}
	cmd.Flags().StringVar(&since, "since", "", "take down what it has published since this time, such as 2026-11-21T03:00:00Z")
	cmd.Flags().StringVar(&reason, "reason", "", "why (required with --since); kept for ever")
	return cmd
}

func robotRestoreCommand() *cobra.Command {
	var t upkeep.TakedownRequest
	return asking(&cobra.Command{
		Use:    "restore NAME --reason TEXT",
		Short:  "Show a robot's published pages again after a take-down; pages that were deleted meanwhile do not come back",
		PreRun: func(_ *cobra.Command, args []string) { t.Robot = args[0] },
	}, upkeep.Lift, &t, "reason", printTakedown(&t, "what %s brought is there again from version %d on, of %d hosts\n"))
}

func robotDeadCommand() *cobra.Command {
	return asking(&cobra.Command{
		Use:   "dead NAME --reason TEXT",
		Short: "Say that a robot visits nothing any more; its hosts go to others at once",
		Long: `Say that a robot visits nothing any more: its machine is switched off, or its disk is lost. Its
hosts, and those that others wait for because it had them, then go to other robots at once, and not
only when its lease is over. If it does run somewhere, two robots will visit the same servers.`,
	}, manager.DeclareDead, new(route.At[manager.DeadRequest]), "reason", nil)
}

func robotState(r roster.Robot) string {
	switch {
	case r.Dead != "":
		return "dead: " + r.Dead
	case !r.Revoked.IsZero() && r.Waits > 0:
		return fmt.Sprintf("revoked, holds %d hosts until %s", r.Waits, Moment(r.Leased))
	case !r.Revoked.IsZero():
		return "revoked"
	case r.Joined.IsZero():
		return "admitted"
	case !r.Subscribed:
		return "away"
	case len(r.Troubles) > 0:
		var kinds []string
		for _, t := range r.Troubles {
			kinds = append(kinds, string(t.Kind))
		}
		return strings.Join(kinds, ", ")
	case r.Paused:
		return "paused"
	}
	return "subscribed"
}

// robotRelease returns the counter of the release that a robot runs and, if the robot is late, of
// the release that it should run.
func robotRelease(r roster.Robot) string {
	running := "none"
	if r.Release > 0 {
		running = strconv.FormatInt(r.Release, 10)
	}
	if r.Behind > 0 {
		return fmt.Sprintf("%s, not %d", running, r.Behind)
	}
	return running
}
