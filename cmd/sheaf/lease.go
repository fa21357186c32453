package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"sheaf/cmd/sheaf/admin"
	"sheaf/cmd/sheaf/service"
	"sheaf/internal/lease/quorum"
)

func leaseCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "lease", Short: "Show and change the servers of a quorum (lease.kind: quorum)"}
	cmd.AddCommand(leaseListCommand(),
		leaseChangeCommand("join", "Let a process take part in granting leases",
			`Let the process that is reached at ADDRESS take part in granting leases. It must be running, with
lease.quorum.listen and the same members and secret as the others. Afterwards, enter it in
lease.quorum.members of all settings, for processes that start later.`,
			func(now []string, address string) ([]string, error) {
				if slices.Contains(now, address) {
					return nil, fmt.Errorf("%s is a server already", address)
				}
				return append(slices.Clone(now), address), nil
			}),
		leaseChangeCommand("leave", "Let a process take no more part in granting leases",
			`Let the process that is reached at ADDRESS take no more part in granting leases, also if it is down
for good. A majority of the servers that there are now must answer. Afterwards, take it out of
lease.quorum.members of all settings.`,
			func(now []string, address string) ([]string, error) {
				at := slices.Index(now, address)
				switch {
				case at < 0:
					return nil, fmt.Errorf("%s is no server; sheaf lease ls shows them", address)
				case len(now) == 1:
					return nil, fmt.Errorf("%s is the only server", address)
				}
				return slices.Delete(slices.Clone(now), at, at+1), nil
			}))
	return cmd
}

func leaseListCommand() *cobra.Command {
	return withQuorum(&cobra.Command{Use: "ls", Short: "List the servers, and which answer"},
		func(cmd *cobra.Command, l *quorum.Locker, _ []string) error { return showServers(cmd, l) })
}

// leaseChangeCommand returns a command that changes the list of servers by one address.
func leaseChangeCommand(use, short, long string, members func(now []string, address string) ([]string, error)) *cobra.Command {
	return withQuorum(&cobra.Command{
		Use: use + " ADDRESS", Short: short,
		Long: long + `

It takes some seconds longer than lease.ttl; leases are held and granted meanwhile. What was broken off is
completed by the next change.`,
	}, func(cmd *cobra.Command, l *quorum.Locker, args []string) error {
		err := l.Change(cmd.Context(), func(now []string) ([]string, error) { return members(now, args[0]) })
		if err != nil && !errors.Is(err, quorum.ErrNoQuorum) {
			return err
		}
		return errors.Join(err, showServers(cmd, l)) // shows which servers answer
	})
}

// withQuorum makes cmd call run with the quorum of the settings.
func withQuorum(cmd *cobra.Command, run func(cmd *cobra.Command, l *quorum.Locker, args []string) error) *cobra.Command {
	return admin.WithSettings(cmd, func(cmd *cobra.Command, cfg service.Config, args []string) error {
		l, err := service.OpenQuorum(cfg)
		if err != nil {
			return err
		}
		defer l.Close()
		return run(cmd, l, args)
	})
}

func showServers(cmd *cobra.Command, l *quorum.Locker) error {
	all, err := l.Members(cmd.Context())
	shown := admin.Show(cmd, all, func(w io.Writer) {
		admin.Table(w, "", all, func(m quorum.Member) []any {
			state := "answers"
			if m.Problem != "" {
				state = "does not answer: " + m.Problem
			}
			switch {
			case m.Joining:
				state += ", joining"
			case m.Leaving:
				state += ", leaving"
			}
			return []any{m.Address, state}
		})
	})
	return errors.Join(err, shown)
}
