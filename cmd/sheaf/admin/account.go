package admin

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sheaf/internal/display"
	"sheaf/internal/route"
	"sheaf/serve/account"
	"sheaf/serve/httpd"
)

func AccountCommand() *cobra.Command {
	cmd := OperatorFlags(&cobra.Command{Use: "account", Short: "Add, change, list and remove consumers' accounts"})
	cmd.AddCommand(accountAddCommand(), accountSetCommand(), accountTokenCommand(), asks("reset NAME", "Mail the owner a link for setting a new password", httpd.SendReset, nil), asks("ls", "List the accounts", httpd.ListAccounts, func(w io.Writer, list account.AccountList) {
		accountTable(w, list.Accounts...)
	}), asks("rm NAME", "Remove an account", httpd.DeleteAccount, nil))
	return cmd
}

// accountFields are the request fields that are flags of both account add and account set.
const accountFields = "window rate email suspended"

// accountFlags are further flags that account add and account set share.
type accountFlags struct {
	quota                    string
	terms, purpose, accepted string
}

func (f *accountFlags) register(cmd *cobra.Command, domains *[]string, preset []string, password *string, what string) {
	cmd.Flags().StringSliceVar(domains, "domain", preset, `domains that the account may fetch; "*" for every host`)
	cmd.Flags().StringVar(&f.quota, "quota", "", "bytes a day, such as 50GiB; 0: no limit")
	passwordFlag(cmd, password, what)
	cmd.Flags().StringVar(&f.terms, "terms", "", `name of the terms of use that its owner has accepted, such as research-2026; "" for none`)
	cmd.Flags().StringVar(&f.purpose, "purpose", "", "with --terms: for which purpose the archives may be used")
	cmd.Flags().StringVar(&f.accepted, "accepted", "", "with --terms: when they were accepted, such as 2026-11-01 (default today)")
}

// read returns the quota and the accepted terms; nil: not given. It also reads the password, if it
// is to be typed.
func (f *accountFlags) read(cmd *cobra.Command, password *string) (quota *int64, terms *account.Terms, err error) {
	given := cmd.Flags().Changed
	if given("quota") {
		n, err := account.ParseQuota(f.quota)
		if err != nil {
			return nil, nil, fmt.Errorf("--quota: %w", err)
		}
		quota = &n
	}
	if given("terms") || given("purpose") || given("accepted") {
		terms = new(account.Terms)
		if f.terms != "" || f.purpose != "" || f.accepted != "" {
			at, err := account.ParseTime(f.accepted)
			if err != nil {
				return nil, nil, fmt.Errorf("--accepted: %w", err)
			}
			if at.IsZero() {
				at = time.Now().UTC().Truncate(24 * time.Hour)
			}
			*terms = account.Terms{Name: f.terms, Purpose: f.purpose, Accepted: at}
		}
	}
	return quota, terms, readPassword(cmd, password)
}

func accountAddCommand() *cobra.Command {
	var wanted account.NewAccount
	var more accountFlags
	cmd := asking(&cobra.Command{
		Use:   "add NAME",
		Short: "Add an account, and print its password",
		PreRunE: func(cmd *cobra.Command, args []string) error {
			wanted.Name = args[0]
			quota, terms, err := more.read(cmd, &wanted.Password)
			if quota != nil {
				wanted.Quota = *quota
			}
			if terms != nil {
				wanted.Terms = *terms
			}
			return err
		},
	}, httpd.CreateAccount, &wanted, accountFields, func(w io.Writer, made account.NewAccount) {
		fmt.Fprintf(w, "account  %s\npassword %s\n", made.Name, made.Password)
	})
	more.register(cmd, &wanted.Domains, []string{"jp"}, &wanted.Password, "its password (default a random one)")
	return cmd
}

func accountSetCommand() *cobra.Command {
	var change route.At[account.Change]
	var more accountFlags
	var password string
	cmd := asking(&cobra.Command{
		Use:   "set NAME",
		Short: "Change an account; the change also applies to running downloads",
		PreRunE: func(cmd *cobra.Command, _ []string) (err error) {
			if cmd.Flags().Changed("password") {
				change.Body.Password = &password
			}
			change.Body.Quota, change.Body.Terms, err = more.read(cmd, &password)
			return err
		},
	}, httpd.ChangeAccount, &change, accountFields, func(w io.Writer, now account.AccountLine) { accountTable(w, now) })
	more.register(cmd, &change.Body.Domains, nil, &password, "its new password")
	return cmd
}

// accountTable prints accounts with the bytes that they fetched today.
func accountTable(w io.Writer, list ...account.AccountLine) {
	Table(w, "account\tdomains\twindow\trate\tquota\ttoday\tterms", list, func(a account.AccountLine) []any {
		quota := "none"
		if a.Quota > 0 {
			quota = display.FormatBytes(a.Quota)
		}
		if a.Suspended {
			quota += ", suspended"
		}
		return []any{a.Name, strings.Join(a.Domains, " "), a.Window, a.Rate, quota, a.Today, termsText(a.Terms)}
	})
}

func termsText(t account.Terms) string {
	if t.Name == "" {
		return "none"
	}
	return fmt.Sprintf("%s of %s: %s", t.Name, t.Accepted.Format(time.DateOnly), t.Purpose)
}

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

func accountTokenCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Make, list and revoke an account's tokens; programs use them instead of the password"}
	cmd.AddCommand(accountTokenAddCommand(), asks("ls NAME", "List an account's tokens", httpd.ListTokens, func(w io.Writer, list account.TokenList) {
		Table(w, "id\tname\tgood for\tmade\texpires\tlast used", list.Tokens, func(t account.Token) []any {
			return []any{t.ID, t.Name, t.Uses, Moment(t.Created), Moment(t.Expires), Moment(t.Used)}
		})
	}), asks("rm NAME ID", "Revoke a token; what is under way with it ends", httpd.RevokeToken, nil))
	return cmd
}

func accountTokenAddCommand() *cobra.Command {
	var (
		wanted route.At[account.NewToken]
		uses   []string
		days   int
	)
	cmd := asking(&cobra.Command{
		Use:   "add NAME",
		Short: "Make a token of an account, and print it",
		PreRun: func(*cobra.Command, []string) {
			for _, u := range uses {
				wanted.Body.Uses = append(wanted.Body.Uses, account.Use(u))
			}
			if days > 0 {
				wanted.Body.Expires = time.Now().AddDate(0, 0, days).UTC()
			}
		},
	}, httpd.MakeToken, &wanted, "", func(w io.Writer, made account.NewToken) {
		fmt.Fprintf(w, "account %s\nid      %s\nexpires %s\ntoken   %s\n", made.Account, made.ID, Moment(made.Expires), made.Secret)
	})
	cmd.Flags().StringVar(&wanted.Body.Name, "name", "made by an operator", "what the token is called")
	cmd.Flags().StringSliceVar(&uses, "use", []string{string(account.ForFiles)}, "what it is good for: all, files, queries, watches")
	cmd.Flags().IntVar(&days, "days", 365, "days until it expires; 0: never")
	return cmd
}
