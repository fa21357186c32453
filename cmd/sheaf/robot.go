package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sheaf/internal/api"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/manager/copies"
	"sheaf/manager/roster"
	"sheaf/serve/client"
)

func robotCommand() *cobra.Command {
	cmd := operatorFlags(&cobra.Command{Use: "robot", Short: "Admit, list, restart and revoke robots"})
	cmd.AddCommand(
		robotAddCommand(),
		&cobra.Command{
			Use:   "ls",
			Short: "List the robots",
			Args:  cobra.NoArgs,
			RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
				var answer manager.RobotsResponse
				if err := c.Do(cmd.Context(), http.MethodGet, api.PathAdminRobots, nil, &answer); err != nil {
					return err
				}
				return show(cmd, answer, func(w io.Writer) error {
					tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
					fmt.Fprintln(tw, "robot\tstate\thosts\tgeneration\tversion\trelease\tlast seen")
					for _, r := range answer.Robots {
						fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%s\t%s\t%s\n", r.Name, robotState(r), r.Hosts, r.Generation, r.Version, robotRelease(r), moment(r.Seen))
					}
					return errors.Join(tw.Flush(), showOdd(w, answer.Odd))
				})
			}),
		},
		robotAction("restart NAME", "Let a robot seal what it has, drop its list and fetch it anew", http.MethodPost, "/restart"),
		robotAction("pause NAME", "Let a robot begin no further page; it goes on uploading", http.MethodPost, "/pause"),
		robotAction("resume NAME", "Let a paused robot go on", http.MethodPost, "/resume"),
		robotAction("upgrade NAME", "Let a robot look for its release now, and not at its next poll; the roll-out says which it is", http.MethodPost, "/upgrade"),
		robotAction("revoke NAME", "Take a robot's credentials away; its hosts go to others", http.MethodDelete, ""),
		robotAction("rm NAME", "Take a robot that was revoked, or has not joined, off the list; what it collected stays", http.MethodDelete, "?forget"),
	)
	return cmd
}

func robotAddCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Admit a robot: prints the command that installs it and lets it join",
		Args:  cobra.ExactArgs(1),
	}
	contact := cmd.Flags().String("contact", "", "URL or mail address of the people at the robot's site; without it they are asked")
	public := cmd.Flags().String("public", "", "URL under which the robot reaches the service (the service's setting http.public)")
	cmd.RunE = asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
		if *contact != "" {
			if err := wire.CheckContact(*contact); err != nil {
				return fmt.Errorf("--contact %s: %w", *contact, err)
			}
		}
		var answer manager.AdmitResponse
		if err := c.Do(cmd.Context(), http.MethodPost, api.PathAdminRobots, manager.AdmitRequest{Name: args[0]}, &answer); err != nil {
			return err
		}
		answer.URL = strings.TrimRight(cmp.Or(*public, answer.URL, c.URL.String()), "/")
		return show(cmd, answer, func(w io.Writer) error {
			if answer.Install.Counter == 0 {
				_, err := fmt.Fprintf(w, "robotd join %s %s\n\nRun this at the robot's site, until %s; its token works once.\nFor a command that installs the robot too, run this first: %s\n",
					answer.URL, answer.Token, answer.Expires.Local().Format(time.DateTime), answer.Install.Missing)
				return err
			}
			_, err := fmt.Fprintf(w, "%s\n\nRun this at the robot's site, until %s; its token works once.\n",
				installLine(answer, *contact), answer.Expires.Local().Format(time.DateTime))
			return err
		})
	})
	return cmd
}

// showOdd names the robots whose pages differ from their peers'.
func showOdd(w io.Writer, list []copies.Copies) error {
	for _, c := range list {
		if !c.Odd {
			continue
		}
		_, err := fmt.Fprintf(w, "%s is given other pages of %s than its peers: %d of %d that were compared, such as %s; time does not explain it\n",
			c.Robot, c.Host, c.Differing, c.Compared, c.Example)
		if err != nil {
			return err
		}
	}
	return nil
}

// installLine is the command that installs a robot. It names digests of the script and
// of the release, so that it is enough to trust the way on which the line travels.
func installLine(a manager.AdmitResponse, contact string) string {
	line := fmt.Sprintf("curl -fsSLo install-robot.sh %s%s && echo '%s  install-robot.sh' | sha256sum -c && sudo sh install-robot.sh --url %s --token %s --release %d:%s",
		a.URL, wire.PathInstaller, a.Install.Script, a.URL, a.Token, a.Install.Counter, a.Install.Release)
	if contact != "" {
		line += " --contact '" + strings.ReplaceAll(contact, "'", `'\''`) + "'"
	}
	return line
}

func robotAction(use, short, method, suffix string) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			return c.Do(cmd.Context(), method, api.PathAdminRobots+"/"+url.PathEscape(args[0])+suffix, nil, nil)
		}),
	}
}

func robotState(r roster.Robot) string {
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

// robotRelease names the release that a robot runs, and the newer one that it should have had by now.
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

func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}
