package admin

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sheaf/internal/display"
	"sheaf/internal/route"
	"sheaf/internal/window"
	"sheaf/serve/account"
	"sheaf/serve/client"
	"sheaf/serve/httpd"
)

func AccountCommand() *cobra.Command {
	cmd := OperatorFlags(&cobra.Command{Use: "account", Short: "Add, change, list and remove consumers' accounts"})
	cmd.AddCommand(accountAddCommand(), accountSetCommand(), accountTokenCommand(), onOne("reset NAME", "Mail the owner a link for setting a new password", httpd.SendReset, nil), onAll("ls", "List the accounts", httpd.ListAccounts, func(w io.Writer, list account.AccountList) {
		accountTable(w, list.Accounts...)
	}), onOne("rm NAME", "Remove an account", httpd.DeleteAccount, nil))
	return cmd
}

// accountFlags are the flags that account add and account set share.
type accountFlags struct {
	domains                       []string
	window, rate, quota, password string
	email                         string
	terms, purpose, accepted      string
	suspended                     bool
}

func (f *accountFlags) register(cmd *cobra.Command, domains []string, password string) {
	cmd.Flags().StringSliceVar(&f.domains, "domain", domains, `domains that the account may fetch; "*" for every host`)
	cmd.Flags().StringVar(&f.window, "window", "", "when the account may fetch, such as 'Mon-Fri 00:00-12:00,13:00-24:00 Asia/Tokyo'; always; or never")
	cmd.Flags().StringVar(&f.rate, "rate", "", "bytes a second, such as 10MiB, '1MiB Mon-Fri 09:00-18:00 Asia/Tokyo | 10MiB' or unlimited")
	cmd.Flags().StringVar(&f.quota, "quota", "", "bytes a day, such as 50GiB; 0: no limit")
	passwordFlag(cmd, &f.password, password)
	cmd.Flags().StringVar(&f.email, "email", "", "mail address for links that set a new password")
	cmd.Flags().StringVar(&f.terms, "terms", "", `name of the terms of use that its owner has accepted, such as research-2026; "" for none`)
	cmd.Flags().StringVar(&f.purpose, "purpose", "", "with --terms: for which purpose the archives may be used")
	cmd.Flags().StringVar(&f.accepted, "accepted", "", "with --terms: when they were accepted, such as 2026-11-01 (default today)")
	cmd.Flags().BoolVar(&f.suspended, "suspended", false, "keep everybody out of the account, until --suspended=false")
}

// change returns the account's change, from the flags that were given.
func (f *accountFlags) change(cmd *cobra.Command) (c account.Change, err error) {
	given := cmd.Flags().Changed
	if given("domain") {
		c.Domains = f.domains
	}
	if given("window") {
		if c.Window, err = window.Parse(f.window); err != nil {
			return c, fmt.Errorf("--window: %w", err)
		}
	}
	if given("rate") {
		if c.Rate, err = account.ParseRates(f.rate); err != nil {
			return c, fmt.Errorf("--rate: %w", err)
		}
	}
	if given("quota") {
		n, err := account.ParseQuota(f.quota)
		if err != nil {
			return c, fmt.Errorf("--quota: %w", err)
		}
		c.Quota = &n
	}
	if err := readPassword(cmd, &f.password); err != nil {
		return c, err
	}
	if given("password") {
		c.Password = &f.password
	}
	if given("email") {
		c.Email = &f.email
	}
	if given("terms") || given("purpose") || given("accepted") {
		if c.Terms, err = f.acceptedTerms(); err != nil {
			return c, err
		}
	}
	if given("suspended") {
		c.Suspended = &f.suspended
	}
	return c, nil
}

// acceptedTerms returns the accepted terms, from the flags.
func (f *accountFlags) acceptedTerms() (*account.Terms, error) {
	if f.terms == "" && f.purpose == "" && f.accepted == "" {
		return new(account.Terms), nil
	}
	at, err := account.ParseTime(f.accepted)
	if err != nil {
		return nil, fmt.Errorf("--accepted: %w", err)
	}
	if at.IsZero() {
		at = time.Now().UTC().Truncate(24 * time.Hour)
	}
	return &account.Terms{Name: f.terms, Purpose: f.purpose, Accepted: at}, nil
}

func accountAddCommand() *cobra.Command {
	var flags accountFlags
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add an account, and print its password",
		Args:  cobra.ExactArgs(1),
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			change, err := flags.change(cmd)
			if err != nil {
				return err
			}
			wanted := account.NewAccount{Account: account.Account{
				Name: args[0], Domains: flags.domains, Window: change.Window, Rate: change.Rate, Email: flags.email, Suspended: flags.suspended,
			}, Password: flags.password}
			if change.Quota != nil {
				wanted.Quota = *change.Quota
			}
			if change.Terms != nil {
				wanted.Terms = *change.Terms
			}
			return ask(cmd, c, httpd.CreateAccount, wanted, func(w io.Writer, made account.NewAccount) {
				fmt.Fprintf(w, "account  %s\npassword %s\n", made.Name, made.Password)
			})
		}),
	}
	flags.register(cmd, []string{"jp"}, "its password (default a random one)")
	return cmd
}

func accountSetCommand() *cobra.Command {
	var flags accountFlags
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Change an account; the change also applies to running downloads",
		Args:  cobra.ExactArgs(1),
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			change, err := flags.change(cmd)
			if err != nil {
				return err
			}
			return ask(cmd, c, httpd.ChangeAccount, route.At[account.Change]{Name: args[0], Body: change}, func(w io.Writer, now account.AccountLine) {
				accountTable(w, now)
			})
		}),
	}
	flags.register(cmd, nil, "its new password")
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
