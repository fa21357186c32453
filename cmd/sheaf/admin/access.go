package admin

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"sheaf/serve/account"
	"sheaf/serve/httpd"
)

func AccessCommand() *cobra.Command {
	cmd := OperatorFlags(&cobra.Command{Use: "access", Short: "List, add and remove rules that say who may see what of the archive"})
	cmd.AddCommand(accessAddCommand(), asks("ls", "List the rules in force", httpd.ListRules, func(w io.Writer, list account.RuleList) {
		Table(w, "id\tnames\topen to\tby\treason", list.Rules, func(r account.Rule) []any {
			return []any{r.ID, r.Names(), r.OpenTo(), r.By, r.Reason}
		})
	}), asks("rm ID", "Remove a rule; what only it hid is visible again", httpd.RemoveRule, nil))
	return cmd
}

func accessAddCommand() *cobra.Command {
	var (
		r               account.Rule
		from, to, until string
		addresses       []string
	)
	cmd := asking(&cobra.Command{
		Use:   "add --reason TEXT",
		Short: "Hide something from everybody except the readers to whom the rule is open",
		Example: `  sheaf access add --domain example.jp --days 365 --reason "contract 12"
  sheaf access add --url-prefix http://www.example.jp/private/ --until 2027-04-01 --address 192.0.2.0/24 --reason "the owner's wish"
  sheaf access add --collection elections-2009 --account alice,bob --reason "licence"`,
		PreRunE: func(*cobra.Command, []string) error {
			for _, at := range []struct {
				flag, text string
				time       *time.Time
			}{{"--from", from, &r.From}, {"--to", to, &r.To}, {"--until", until, &r.Until}} {
				var err error
				if *at.time, err = account.ParseTime(at.text); err != nil {
					return fmt.Errorf("%s: %w", at.flag, err)
				}
			}
			for _, text := range addresses {
				p, err := account.ParseNetwork(text)
				if err != nil {
					return fmt.Errorf("--address: %w", err)
				}
				r.Addresses = append(r.Addresses, p)
			}
			return nil
		},
	}, httpd.AddRule, &r, "domain url_prefix collection terms days reason by=$USER", func(w io.Writer, made account.Rule) {
		fmt.Fprintf(w, "rule %d: %s is open to %s\n", made.ID, made.Names(), made.OpenTo())
	})
	f := cmd.Flags()
	f.StringVar(&from, "from", "", "only what was fetched from this day or time on, such as 2026-11-01")
	f.StringVar(&to, "to", "", "only what was fetched before this day or time")
	f.StringSliceVar(&r.Accounts, "account", nil, "open to these accounts")
	f.StringSliceVar(&addresses, "address", nil, "open to clients at these addresses or networks, such as 192.0.2.0/24")
	f.StringVar(&until, "until", "", "open to everybody from this day or time on")
	return cmd
}
