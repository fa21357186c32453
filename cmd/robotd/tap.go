package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"sheaf/internal/display"
	"sheaf/robotd/config"
	"sheaf/robotd/control"
)

func tapCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tap",
		Short: "Read the records as the running robot stores them",
		Long: "tap reads every record as the robot stores it, until Ctrl-C or until the robot ends. On a\n" +
			"terminal it prints a line for each; to a file or pipe it writes a warc.gz. A reader that is\n" +
			"too slow is told that records are lost. It holds up the crawl for tap.wait at most.",
	}
	warc := cmd.Flags().Bool("warc", false, "as a warc.gz, on a terminal too")
	asJSON := cmd.Flags().Bool("json", false, "one line of JSON for each record's headers")
	cmd.MarkFlagsMutuallyExclusive("warc", "json")
	cmd.RunE = with(func(cmd *cobra.Command, cfg config.Config, _ []string) error {
		path := cfg.TapSocket()
		if path == "" {
			return errors.New("this robot has no tap: its setting tap.socket is none")
		}
		conn, err := config.DialSocket(cmd.Context(), path)
		if err != nil {
			return fmt.Errorf("no robot runs in %s: %w", cfg.DataDir, err)
		}
		defer conn.Close()
		defer context.AfterFunc(cmd.Context(), func() { conn.Close() })()
		out := cmd.OutOrStdout()
		_, terminal := onTerminal(out)
		switch {
		case *asJSON:
			err = eachRecord(conn, json.NewEncoder(out).Encode)
		case *warc || !terminal:
			_, err = io.Copy(out, conn)
		default:
			err = eachRecord(conn, func(rec any) error { return printRecord(out, rec.(*control.Record)) })
		}
		if cmd.Context().Err() != nil || errors.Is(err, unix.EPIPE) { // the reader of the output wants no more
			return nil
		}
		return err
	})
	return cmd
}

// eachRecord calls show for each record except warcinfo, until the records end or show fails.
func eachRecord(in io.Reader, show func(any) error) error {
	r, err := control.NewTapReader(bufio.NewReader(in))
	if err != nil {
		return err
	}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if rec.Type == "warcinfo" {
			continue
		}
		if err := show(rec); err != nil {
			return err
		}
	}
}

// printRecord writes a record as a line for people.
func printRecord(out io.Writer, rec *control.Record) error {
	if rec.Lost > 0 {
		_, err := fmt.Fprintf(out, "-- %d records lost: this reader was too slow --\n", rec.Lost)
		return err
	}
	at := rec.Date
	if t, err := time.Parse(time.RFC3339, rec.Date); err == nil {
		at = t.Local().Format(time.TimeOnly)
	}
	answer := rec.Status
	if rec.Type == "revisit" {
		answer = "unchanged"
	}
	_, err := fmt.Fprintf(out, "%s  %-13.13s %8s  %s\n", at, display.Harmless(answer), control.Size(rec.Length), display.Harmless(rec.URL))
	return err
}
