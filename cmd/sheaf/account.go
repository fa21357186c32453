package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"sheaf/internal/api"
	"sheaf/internal/bytesize"
	"sheaf/internal/window"
	"sheaf/serve/account"
	"sheaf/serve/bandwidth"
	"sheaf/serve/client"
)

func accountCommand() *cobra.Command {
	cmd := operatorFlags(&cobra.Command{Use: "account", Short: "Give and take consumers' accounts"})
	cmd.AddCommand(accountAddCommand(), accountSetCommand(), accountListCommand(), &cobra.Command{
		Use:   "rm NAME",
		Short: "Take an account away",
		Args:  cobra.ExactArgs(1),
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			return c.Do(cmd.Context(), http.MethodDelete, api.PathAdminAccounts+"/"+url.PathEscape(args[0]), nil, nil)
		}),
	})
	return cmd
}

// accountFlags are the flags that account add and account set share.
type accountFlags struct {
	domains                       []string
	window, rate, quota, password string
}

func (f *accountFlags) register(cmd *cobra.Command, domains []string, password string) {
	cmd.Flags().StringSliceVar(&f.domains, "domain", domains, `domains that it may fetch; "*" is every host`)
	cmd.Flags().StringVar(&f.window, "window", "", "when it may fetch, such as 'Mon-Fri 00:00-12:00,13:00-24:00 Asia/Tokyo'; or always, or never")
	cmd.Flags().StringVar(&f.rate, "rate", "", "bytes a second, such as 10MiB, '1MiB Mon-Fri 09:00-18:00 Asia/Tokyo | 10MiB' or unlimited")
	cmd.Flags().StringVar(&f.quota, "quota", "", "bytes a day, with a unit, such as 50GiB; 0: any number")
	cmd.Flags().StringVar(&f.password, "password", "", password)
}

// change is what the flags that were given ask for.
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
		if c.Rate, err = bandwidth.ParseRates(f.rate); err != nil {
			return c, fmt.Errorf("--rate: %w", err)
		}
	}
	if given("quota") {
		n, err := parseQuota(f.quota)
		if err != nil {
			return c, fmt.Errorf("--quota: %w", err)
		}
		c.Quota = &n
	}
	if given("password") {
		c.Password = &f.password
	}
	return c, nil
}

// parseQuota reads a number of bytes, with its unit: 50 is more probably meant as 50GiB than as 50 bytes.
func parseQuota(text string) (int64, error) {
	n, err := bytesize.Parse(strings.TrimSuffix(text, "B"))
	if unit := strings.TrimLeft(text, "0123456789."); err != nil || unit != "" && unit != "B" {
		return bytesize.Parse(text)
	} else if unit == "" && n != 0 {
		return 0, fmt.Errorf("%q has no unit; write %sGiB, %sMiB or %sB", text, text, text, text)
	}
	return n, nil
}

func accountAddCommand() *cobra.Command {
	var flags accountFlags
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Make an account; prints its password, unless one is given",
		Args:  cobra.ExactArgs(1),
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			change, err := flags.change(cmd)
			if err != nil {
				return err
			}
			wanted := account.NewAccount{Account: account.Account{
				Name: args[0], Domains: flags.domains, Window: change.Window, Rate: change.Rate,
			}, Password: flags.password}
			if change.Quota != nil {
				wanted.Quota = *change.Quota
			}
			var made account.NewAccount
			if err := c.Do(cmd.Context(), http.MethodPost, api.PathAdminAccounts, wanted, &made); err != nil {
				return err
			}
			return show(cmd, made, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "account  %s\npassword %s\n", made.Name, made.Password)
				return err
			})
		}),
	}
	flags.register(cmd, []string{"jp"}, "its password; default a random one, which is printed")
	return cmd
}

func accountSetCommand() *cobra.Command {
	var flags accountFlags
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Change an account; downloads that run go on under what is set",
		Args:  cobra.ExactArgs(1),
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			change, err := flags.change(cmd)
			if err != nil {
				return err
			}
			var now account.AccountLine
			if err := c.Do(cmd.Context(), http.MethodPatch, api.PathAdminAccounts+"/"+url.PathEscape(args[0]), change, &now); err != nil {
				return err
			}
			return show(cmd, now, func(w io.Writer) error { return accountTable(w, now) })
		}),
	}
	flags.register(cmd, nil, "its new password")
	return cmd
}

// accountTable prints accounts; what they fetched today where it is known.
func accountTable(w io.Writer, accounts ...account.AccountLine) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "account\tdomains\twindow\trate\tquota\ttoday")
	for _, a := range accounts {
		quota := "none"
		if a.Quota > 0 {
			quota = bytesize.Format(a.Quota)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%d\n", a.Name, strings.Join(a.Domains, " "), a.Window, a.Rate, quota, a.Today)
	}
	return tw.Flush()
}

func accountListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List the accounts",
		Args:  cobra.NoArgs,
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			var answer account.AccountList
			if err := c.Do(cmd.Context(), http.MethodGet, api.PathAdminAccounts, nil, &answer); err != nil {
				return err
			}
			return show(cmd, answer, func(w io.Writer) error {
				return accountTable(w, answer.Accounts...)
			})
		}),
	}
}
