package admin

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sheaf/internal/api"
	"sheaf/internal/commandline"
	"sheaf/serve/client"
	"sheaf/serve/httpd"
	"sheaf/serve/mirror"
	"sheaf/serve/watch"
)

func WatchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "watch", Short: "Be told when a page, the answer of a form, the pages below a URL or a host changes",
		Long: "The account is that of --url, of SHEAF_USER and SHEAF_PASSWORD, or of ~/.netrc (NETRC).",
	}
	cmd.PersistentFlags().String("url", envOr("SHEAF_URL", "http://127.0.0.1:8080"), "the service's address (SHEAF_URL)")
	cmd.PersistentFlags().Bool("json", false, "print JSON")
	list := asks("ls", "List the account's watches", httpd.ListWatches, func(out io.Writer, list watch.WatchList) {
		Table(out, "watch\tkind\twhat\ttold by", list.Watches, func(w *watch.Watch) []any {
			return []any{w.ID, w.Kind, w.Title(), strings.Join(toldBy(w), ", ")}
		})
		watchTroubles(out, list.Watches)
	})
	list.Aliases = []string{"list"}
	cmd.AddCommand(watchAddCommand(), list,
		asks("show ID", "Show the changes that a watch has found", httpd.ShowWatch, func(out io.Writer, doc watch.WatchDocument) {
			Table(out, "visited\twhat\tpage\tdifferences", doc.Notices, func(n *watch.Notice) []any {
				return []any{n.At.Format(time.RFC3339), n.What, n.URL, n.Diff}
			})
		}),
		each(&cobra.Command{Use: "rm ID…", Aliases: []string{"remove"}, Short: "End watches"}, httpd.EndWatch))
	return cmd
}

// asConsumer returns a command's function that calls run with a consumer's client of the service.
func asConsumer(run action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		text, _ := cmd.Flags().GetString("url")
		to, err := url.Parse(strings.TrimSuffix(text, "/"))
		if err != nil || to.Host == "" {
			return fmt.Errorf("--url: %q is not the address of a service, such as http://127.0.0.1:8080", text)
		}
		user, password, err := mirror.Credentials(to, os.Getenv("SHEAF_USER"), os.Getenv("SHEAF_PASSWORD"))
		if err != nil {
			return err
		}
		return Explain(run(cmd, &client.Client{URL: to, User: user, Password: password, HTTP: client.Within(time.Minute)}, args))
	}
}

func watchAddCommand() *cobra.Command {
	var wish watch.Wish
	var prefix, host bool
	cmd := &cobra.Command{
		Use: "add URL", Short: "Watch a page; with --prefix all pages below a URL, with --host a host",
		Example: `  sheaf watch add http://www.example.jp/news.html --email me@example.jp --every day
  sheaf watch add --host www.example.jp --webhook https://hook.example.jp/sheaf
  sheaf watch add http://www.example.jp/search --body 'q=sheaf&n=10'
  sheaf watch add http://www.example.jp/today.html --once    # only save it now`,
		RunE: asConsumer(func(cmd *cobra.Command, c *client.Client, args []string) error {
			switch {
			case prefix:
				wish.Prefix = args[0]
			case host:
				wish.Host = args[0]
			default:
				wish.URL = args[0]
			}
			return ask(cmd, c, httpd.BeginWatch, wish, func(out io.Writer, w *watch.Watch) {
				if w.Once {
					fmt.Fprintf(out, "%s has %s saved, as soon as its host's interval allows\n", w.ID, w.URL)
				} else {
					fmt.Fprintf(out, "%s watches %s\n", w.ID, w.URL)
				}
				if text := notCollected[w.Collection]; text != "" {
					fmt.Fprintf(out, "%s: %s\n", w.Host, text)
				}
				if w.Waiting {
					fmt.Fprintf(out, "a mail to %s asks for confirmation\n", w.Email)
				}
				if w.Webhook != "" {
					fmt.Fprintf(out, "calls of %s are signed with %s\n", w.Webhook, w.Secret)
				}
				if !w.Once {
					fmt.Fprintf(out, "feed: %s%s/%s.atom\n", c.URL, api.PathWatches, w.ID)
				}
			})
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&prefix, "prefix", false, "watch all pages whose URL begins with URL")
	f.BoolVar(&host, "host", false, "watch all pages of a host, which is given instead of URL")
	commandline.Flags(cmd, &wish, "once body media email every webhook")
	cmd.MarkFlagsMutuallyExclusive("prefix", "host")
	return cmd
}

// toldBy returns the ways in which a watch reports changes.
func toldBy(w *watch.Watch) []string {
	switch {
	case w.Once && w.Saved.IsZero():
		return []string{"nothing; to be saved once"}
	case w.Once:
		return []string{"nothing; saved " + w.Saved.Format(time.RFC3339)}
	}
	ways := []string{"feed"}
	switch {
	case w.Email == "":
	case w.Waiting:
		ways = append(ways, w.Email+" (not confirmed)")
	case w.MailStopped != "":
		ways = append(ways, w.Email+" (stopped)")
	default:
		ways = append(ways, w.Email+" each "+string(w.Every))
	}
	switch {
	case w.Webhook == "":
	case w.HookStopped != "":
		ways = append(ways, w.Webhook+" (stopped)")
	default:
		ways = append(ways, w.Webhook)
	}
	return ways
}

// notCollected has the reasons why a watch finds nothing for now.
var notCollected = map[watch.Collection]string{
	watch.Requested: "nobody collects this host yet; the service is asked to",
	watch.Accepted:  "the host will be collected; no robot has it yet",
	watch.Pending:   "an operator has to decide whether this host is collected",
	watch.Refused:   "this host is not collected; the watch tells of nothing new",
}

// watchTroubles prints which hosts are not collected and which messages could not be sent, with the
// reasons. It quotes other servers' words.
func watchTroubles(out io.Writer, list []*watch.Watch) {
	for _, w := range list {
		if text := notCollected[w.Collection]; text != "" {
			fmt.Fprintf(out, "%s: %s\n", w.ID, text)
		}
		for _, stopped := range []struct{ by, to, why string }{{"mails", w.Email, w.MailStopped}, {"calls", w.Webhook, w.HookStopped}} {
			if stopped.why != "" {
				fmt.Fprintf(out, "%s: no more %s to %s, which refused them: %q\n", w.ID, stopped.by, stopped.to, stopped.why)
			}
		}
		for _, f := range w.Failing {
			if f.Waiting > 0 {
				fmt.Fprintf(out, "%s: %d not sent by %s yet, next attempt %s: %q\n", w.ID, f.Waiting, f.By, f.Next.Local().Format(time.RFC3339), f.Error)
			}
			if f.GivenUp > 0 {
				fmt.Fprintf(out, "%s: %d given up by %s: %q\n", w.ID, f.GivenUp, f.By, f.Error)
			}
		}
	}
}
