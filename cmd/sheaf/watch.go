package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sheaf/internal/api"
	"sheaf/serve/client"
	"sheaf/serve/mirror"
	"sheaf/serve/watch"
)

// watchCommand groups the commands by which consumers watch pages.
func watchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "watch", Short: "Be told when a page, a form's answer, the pages below an address or a host change",
		Long: "The account is that of --url, of SHEAF_USER and SHEAF_PASSWORD, or of ~/.netrc (NETRC).",
	}
	cmd.PersistentFlags().String("url", envOr("SHEAF_URL", "http://127.0.0.1:8080"), "the service's address (SHEAF_URL)")
	cmd.PersistentFlags().Bool("json", false, "print JSON")
	cmd.AddCommand(watchAddCommand(), watchListCommand(), watchShowCommand(), watchRemoveCommand())
	return cmd
}

// asConsumer makes a command's function of one that speaks to the service as a consumer.
func asConsumer(run func(cmd *cobra.Command, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		text, _ := cmd.Flags().GetString("url")
		to, err := url.Parse(strings.TrimSuffix(text, "/"))
		if err != nil || to.Host == "" {
			return fmt.Errorf("--url %q is no address of a service", text)
		}
		user, password, err := mirror.Credentials(to, os.Getenv("SHEAF_USER"), os.Getenv("SHEAF_PASSWORD"))
		if err != nil {
			return err
		}
		return run(cmd, &client.Client{URL: to, User: user, Password: password, HTTP: &http.Client{Timeout: time.Minute}}, args)
	}
}

func watchAddCommand() *cobra.Command {
	var wish watch.Wish
	var every string
	var prefix, host bool
	cmd := &cobra.Command{
		Use: "add URL", Short: "Begin to watch a page; with --prefix all that begins so, with --host a host", Args: cobra.ExactArgs(1),
		Example: `  sheaf watch add http://www.example.jp/news.html --email me@example.jp --every day
  sheaf watch add --host www.example.jp --webhook https://hook.example.jp/sheaf
  sheaf watch add http://www.example.jp/search --body 'q=sheaf&n=10'`,
		RunE: asConsumer(func(cmd *cobra.Command, c *client.Client, args []string) error {
			switch {
			case prefix:
				wish.Prefix = args[0]
			case host:
				wish.Host = args[0]
			default:
				wish.URL = args[0]
			}
			wish.Every = watch.Cadence(every)
			var w watch.Watch
			if err := c.Do(cmd.Context(), http.MethodPost, api.PathWatches, wish, &w); err != nil {
				return err
			}
			return show(cmd, w, func(out io.Writer) error {
				fmt.Fprintf(out, "%s watches %s\n", w.ID, w.URL)
				if w.Waiting {
					fmt.Fprintf(out, "a mail to %s asks whether mails are wanted there\n", w.Email)
				}
				if w.Webhook != "" {
					fmt.Fprintf(out, "calls of %s are signed with %s\n", w.Webhook, w.Secret)
				}
				_, err := fmt.Fprintf(out, "feed: %s%s/%s.atom\n", c.URL, api.PathWatches, w.ID)
				return err
			})
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&prefix, "prefix", false, "watch all pages whose URL begins so")
	f.BoolVar(&host, "host", false, "watch all pages of the host")
	f.StringVar(&wish.Body, "body", "", "send these fields by POST: watch what a form answers")
	f.StringVar(&wish.Media, "media", "", "media type of --body, where it is no form's")
	f.StringVar(&wish.Email, "email", "", "send mails to this address")
	f.StringVar(&every, "every", "", "how often mails come: change, hour or day")
	f.StringVar(&wish.Webhook, "webhook", "", "call this URL at each change")
	cmd.MarkFlagsMutuallyExclusive("prefix", "host")
	return cmd
}

func watchListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List what the account watches", Args: cobra.NoArgs,
		RunE: asConsumer(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			var list watch.WatchList
			if err := c.Do(cmd.Context(), http.MethodGet, api.PathWatches, nil, &list); err != nil {
				return err
			}
			return show(cmd, list, func(out io.Writer) error {
				tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
				fmt.Fprintln(tw, "watch\tkind\twhat\ttold by")
				for _, w := range list.Watches {
					by := []string{"feed"}
					switch {
					case w.Waiting:
						by = append(by, w.Email+" (not confirmed)")
					case w.Email != "" && w.MailStopped != "":
						by = append(by, w.Email+" (stopped)")
					case w.Email != "":
						by = append(by, w.Email+" each "+string(w.Every))
					}
					switch {
					case w.Webhook != "" && w.HookStopped != "":
						by = append(by, w.Webhook+" (stopped)")
					case w.Webhook != "":
						by = append(by, w.Webhook)
					}
					fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", w.ID, w.Kind, w.Title(), strings.Join(by, ", "))
				}
				if err := tw.Flush(); err != nil {
					return err
				}
				return watchTroubles(out, list.Watches)
			})
		}),
	}
}

// watchTroubles tells what could not be told, and why. The other side's words stand quoted: they are not the service's.
func watchTroubles(out io.Writer, list []*watch.Watch) (err error) {
	say := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(out, format, args...)
		}
	}
	for _, w := range list {
		for _, stopped := range []struct{ by, to, why string }{{"mails", w.Email, w.MailStopped}, {"calls", w.Webhook, w.HookStopped}} {
			if stopped.why != "" {
				say("%s: no more %s to %s, which refused them: %q\n", w.ID, stopped.by, stopped.to, stopped.why)
			}
		}
		for _, f := range w.Failing {
			if f.Waiting > 0 {
				say("%s: %d not told by %s yet, next try %s: %q\n", w.ID, f.Waiting, f.By, f.Next.Local().Format(time.RFC3339), f.Error)
			}
			if f.GivenUp > 0 {
				say("%s: %d given up by %s: %q\n", w.ID, f.GivenUp, f.By, f.Error)
			}
		}
	}
	return err
}

func watchShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show what a watch has found", Args: cobra.ExactArgs(1),
		RunE: asConsumer(func(cmd *cobra.Command, c *client.Client, args []string) error {
			var doc watch.WatchDocument
			if err := c.Do(cmd.Context(), http.MethodGet, api.PathWatches+"/"+args[0], nil, &doc); err != nil {
				return err
			}
			return show(cmd, doc, func(out io.Writer) error {
				tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
				fmt.Fprintln(tw, "visited\twhat\tpage\tdifferences")
				for _, n := range doc.Notices {
					fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", n.At.Format(time.RFC3339), n.What, n.URL, n.Diff)
				}
				return tw.Flush()
			})
		}),
	}
}

func watchRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm ID...", Aliases: []string{"remove"}, Short: "End watches", Args: cobra.MinimumNArgs(1),
		RunE: asConsumer(func(cmd *cobra.Command, c *client.Client, args []string) error {
			for _, id := range args {
				if err := c.Do(cmd.Context(), http.MethodDelete, api.PathWatches+"/"+id, nil, nil); err != nil {
					return fmt.Errorf("%s: %w", id, err)
				}
			}
			return nil
		}),
	}
}
