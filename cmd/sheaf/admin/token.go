package admin

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"sheaf/internal/route"
	"sheaf/serve/account"
	"sheaf/serve/client"
	"sheaf/serve/httpd"
)

func accountTokenCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Make, list and revoke an account's tokens; programs use them instead of the password"}
	cmd.AddCommand(accountTokenAddCommand(), onOne("ls NAME", "List an account's tokens", httpd.ListTokens, func(w io.Writer, list account.TokenList) {
		Table(w, "id\tname\tgood for\tmade\texpires\tlast used", list.Tokens, func(t account.Token) []any {
			return []any{t.ID, t.Name, t.Uses, Moment(t.Created), Moment(t.Expires), Moment(t.Used)}
		})
	}), &cobra.Command{
		Use:   "rm NAME ID",
		Short: "Revoke a token; what is under way with it ends",
		Args:  cobra.ExactArgs(2),
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			return tell(cmd, c, httpd.RevokeToken, httpd.TokenOf{Account: args[0], ID: args[1]})
		}),
	})
	return cmd
}

func accountTokenAddCommand() *cobra.Command {
	var (
		wanted account.NewToken
		uses   []string
		days   int
	)
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Make a token of an account, and print it",
		Args:  cobra.ExactArgs(1),
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			for _, u := range uses {
				wanted.Uses = append(wanted.Uses, account.Use(u))
			}
			if days > 0 {
				wanted.Expires = time.Now().AddDate(0, 0, days).UTC()
			}
			return ask(cmd, c, httpd.MakeToken, route.At[account.NewToken]{Name: args[0], Body: wanted}, func(w io.Writer, made account.NewToken) {
				fmt.Fprintf(w, "account %s\nid      %s\nexpires %s\ntoken   %s\n", made.Account, made.ID, Moment(made.Expires), made.Secret)
			})
		}),
	}
	cmd.Flags().StringVar(&wanted.Name, "name", "made by an operator", "what the token is called")
	cmd.Flags().StringSliceVar(&uses, "use", []string{string(account.ForFiles)}, "what it is good for: all, files, queries, watches")
	cmd.Flags().IntVar(&days, "days", 365, "days until it expires; 0: never")
	return cmd
}
