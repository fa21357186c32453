package admin

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sheaf/internal/commandline"
	"sheaf/manager"
	"sheaf/manager/hosts"
	"sheaf/serve/client"
)

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
