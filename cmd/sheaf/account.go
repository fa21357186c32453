package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"sheaf/cmd/sheaf/operator"
	"sheaf/internal/window"
	"sheaf/serve"
	"sheaf/serve/httpd"
)

func accountCommand() *cobra.Command {
	cmd := operatorFlags(&cobra.Command{Use: "account", Short: "Give and take consumers' accounts"})
	cmd.AddCommand(accountAddCommand(), accountListCommand(), &cobra.Command{
		Use:   "rm NAME",
		Short: "Take an account away",
		Args:  cobra.ExactArgs(1),
		RunE: asOperator(func(cmd *cobra.Command, c *operator.Client, args []string) error {
			return c.Do(cmd.Context(), http.MethodDelete, httpd.PathAccounts+"/"+url.PathEscape(args[0]), nil, nil)
		}),
	})
	return cmd
}

func accountAddCommand() *cobra.Command {
	var domains []string
	var when, password string
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Make an account; prints its password, unless one is given",
		Args:  cobra.ExactArgs(1),
		RunE: asOperator(func(cmd *cobra.Command, c *operator.Client, args []string) error {
			wanted := httpd.NewAccount{Account: serve.Account{Name: args[0], Domains: domains}, Password: password}
			if when != "" {
				schedule, err := window.Parse(when)
				if err != nil {
					return fmt.Errorf("--window: %w", err)
				}
				wanted.Window = schedule
			}
			var made httpd.NewAccount
			if err := c.Do(cmd.Context(), http.MethodPost, httpd.PathAccounts, wanted, &made); err != nil {
				return err
			}
			return show(cmd, made, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "account  %s\npassword %s\n", made.Name, made.Password)
				return err
			})
		}),
	}
	cmd.Flags().StringSliceVar(&domains, "domain", []string{"jp"}, `domains that it may fetch; "*" is every host`)
	cmd.Flags().StringVar(&when, "window", "", "when it may fetch, such as 'Mon-Fri 00:00-12:00,13:00-24:00 Asia/Tokyo'; default always")
	cmd.Flags().StringVar(&password, "password", "", "its password; default a random one, which is printed")
	return cmd
}

func accountListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List the accounts",
		Args:  cobra.NoArgs,
		RunE: asOperator(func(cmd *cobra.Command, c *operator.Client, args []string) error {
			var answer httpd.AccountList
			if err := c.Do(cmd.Context(), http.MethodGet, httpd.PathAccounts, nil, &answer); err != nil {
				return err
			}
			return show(cmd, answer, func(w io.Writer) error {
				tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				fmt.Fprintln(tw, "account\tdomains\twindow")
				for _, a := range answer.Accounts {
					when := "always"
					if a.Window != nil {
						when = a.Window.String()
					}
					fmt.Fprintf(tw, "%s\t%s\t%s\n", a.Name, strings.Join(a.Domains, " "), when)
				}
				return tw.Flush()
			})
		}),
	}
}
