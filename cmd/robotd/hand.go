package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"sheaf/robotd"
	"sheaf/robotd/config"
)

func handCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hand --head ADDRESS --pass FILE",
		Short: "Fetch, search and deflate pages for a robot on another machine of this site",
		Long: "hand does work for a robot, the head, that waits for hands at hands.listen. The file\n" +
			"comes from \"robotd hand invite\" at the head. The head says which pages to fetch, and\n" +
			"when; of this machine's settings, network and limits.bandwidth count.",
	}
	head := cmd.Flags().String("head", "", "host:port of the head")
	pass := cmd.Flags().String("pass", "", "file that robotd hand invite has written")
	turns := cmd.Flags().Int("turns", 1000, "pages fetched at once")
	cmd.RunE = with(func(cmd *cobra.Command, cfg config.Config, _ []string) error {
		if *head == "" || *pass == "" || *turns < 1 {
			return errors.New("--head, --pass and a positive number of --turns are needed")
		}
		text, err := os.ReadFile(*pass)
		if err != nil {
			return err
		}
		defer robotd.HoldMemory(cfg.Memory.Limit)()
		return robotd.Hand(cmd.Context(), cfg, *head, text, *turns, logger(cmd, cfg))
	})
	cmd.AddCommand(handInviteCommand(), handRemoveCommand())
	return cmd
}

func handInviteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "invite NAME",
		Short: "At the head: write the file with which a hand connects",
	}
	out := cmd.Flags().String("out", "", "the file (default NAME.pass)")
	cmd.RunE = with(func(cmd *cobra.Command, cfg config.Config, args []string) (err error) {
		path := cmp.Or(*out, args[0]+".pass")
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // before the right of an earlier file ends
		if err != nil {
			return err
		}
		pass, err := robotd.InviteHand(cfg, args[0])
		if err == nil {
			_, err = f.Write(pass)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return errors.Join(err, os.Remove(path))
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s holds a key: bring it to the machine by a safe way, and run there\nrobotd hand --head HOST:PORT --pass %[1]s\n", path)
		return err
	})
	return cmd
}

func handRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "At the head: end the right of a hand",
		RunE: with(func(cmd *cobra.Command, cfg config.Config, args []string) error {
			return robotd.RemoveHand(cfg, args[0])
		}),
	}
}
