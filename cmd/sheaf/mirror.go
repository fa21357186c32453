package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"sheaf/cmd/sheaf/admin"
	"sheaf/internal/display"
	"sheaf/serve/mirror"
)

func mirrorCommand() *cobra.Command {
	var (
		opt    mirror.Options
		limit  string
		asJSON bool
		quiet  bool
	)
	cmd := &cobra.Command{
		Use:   "mirror URL DIR",
		Short: "Keep a copy of a service's archives, and follow what is published and taken down",
		Long: `Keep a copy of a service's archives in DIR, laid out as the service's own tree, and follow what is published and taken
down until it is interrupted or, with --once, until everything is copied. Run again, it goes on where it was.

URL is http://, https://, ftp:// or ftpes:// (FTP with AUTH TLS). The account is that of the URL, of SHEAF_USER and
SHEAF_PASSWORD, or of ~/.netrc (NETRC). Outside the account's window, and where the service asks to come back later, it waits.

Files have their names once they are whole and their SHA-256 is the catalog's. The forms current.tar.gz and the like change with
every edition, and are then replaced in one step. What is taken down or expires is deleted
here too; so is what a narrower selection leaves out, and a host whose robots.txt begins to ask what --honour names. Each host's directory has its own MANIFEST and SHA256SUMS.`,
		Example: `  sheaf mirror https://archive.example.jp archive --domain ac.jp
  sheaf mirror ftp://alice@archive.example.jp archive --once --parallel 8 --limit 10MiB`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opt.URL, opt.Dir = args[0], args[1]
			opt.User, opt.Password = os.Getenv("SHEAF_USER"), os.Getenv("SHEAF_PASSWORD")
			var err error
			if opt.Limit, err = display.ParseBytes(limit); err != nil {
				return fmt.Errorf("--limit: %w", err)
			}
			finish := report(cmd, &opt, asJSON, quiet)
			sum, err := mirror.Run(cmd.Context(), opt)
			finish()
			if errors.Is(err, context.Canceled) {
				return errors.New("interrupted; the same command goes on where this one was")
			}
			if asJSON {
				err = errors.Join(err, json.NewEncoder(cmd.OutOrStdout()).Encode(sum))
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&opt.Once, "once", false, "end when everything is copied")
	f.BoolVar(&opt.Check, "check", false, "first read the copied files again, and fetch damaged ones anew")
	f.StringSliceVar(&opt.Forms, "forms", []string{"tar.gz"}, "what to keep: of each edition tar.gz, warc.gz, links.gz; and of each host current.tar.gz, current.warc.gz, all.tar.gz, all.warc.gz, all.links.gz")
	f.StringSliceVar(&opt.Tables, "tables", nil, "also keep the tables of this top-level domain, such as jp: records, hosts, links and texts of the newest days, and links of the latest versions")
	f.StringSliceVar(&opt.Selection.Hosts, "host", nil, "only this host, such as www.example.jp; may be given several times, as the next two")
	f.StringSliceVar(&opt.Selection.Domains, "domain", nil, "only this host and all below it, such as ac.jp")
	f.StringArrayVar(&opt.Selection.SURT, "surt", nil, "only hosts whose key begins so, such as jp,ac,w")
	f.StringArrayVar(&opt.Honour, "honour", nil, "leave out hosts whose robots.txt asks this, such as content-usage:train-ai=n, content-signal:ai-train=no or license; may be given several times")
	f.StringVar(&opt.CAFile, "ca-file", "", "PEM file of the certificate authorities to trust, instead of the system's")
	f.IntVar(&opt.Parallel, "parallel", 4, "downloads at once")
	f.StringVar(&limit, "limit", "0", "bytes a second of all downloads together, such as 10MiB; 0: no limit")
	f.DurationVar(&opt.Poll, "poll", time.Minute, "how often to ask for news, where the service does not tell at once")
	f.DurationVar(&opt.Patience, "patience", 5*time.Minute, "with --once: how long the service may give nothing")
	f.DurationVar(&opt.MaxWait, "max-wait", 24*time.Hour, "with --once: how long to wait for the account's window")
	f.BoolVar(&asJSON, "json", false, "print a JSON object for each thing that happens, and the totals in the end")
	f.BoolVar(&quiet, "quiet", false, "print nothing but errors")
	return cmd
}

// report sets how progress is shown: as JSON, not at all, as bars on a terminal, or as lines. Call
// finish at the end.
func report(cmd *cobra.Command, opt *mirror.Options, asJSON, quiet bool) (finish func()) {
	switch out := cmd.OutOrStdout(); {
	case asJSON:
		opt.Reporter = mirror.NewJSON(out)
	case quiet:
	case admin.IsTerminal(out) && cmp.Or(os.Getenv("TERM"), "dumb") != "dumb":
		bars := mirror.NewBars(out)
		opt.Reporter = bars
		return bars.Wait
	default:
		opt.Reporter = mirror.NewLines(out)
	}
	return func() {}
}
