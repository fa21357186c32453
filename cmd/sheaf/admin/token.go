package admin

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"sheaf/internal/route"
	"sheaf/serve/account"
	"sheaf/serve/httpd"
)

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
