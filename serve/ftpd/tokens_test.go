package ftpd_test

import (
	"errors"
	"net/textproto"
	"testing"

	client "github.com/jlaffaye/ftp"

	"sheaf/internal/testkit"
	"sheaf/serve/account"
)

// A token for files is a password; one for something else is not. When the token is revoked, its
// session ends.
func TestTokens(t *testing.T) {
	s, addr := newSite(t)
	dial := func(u account.Use) (*client.ServerConn, string, error) {
		made, secret, err := s.Accounts.CreateToken(t.Context(), "jp", account.Token{Name: "x", Uses: []account.Use{u}})
		testkit.Must(t, err)
		c, err := client.Dial(addr, client.DialWithTimeout(testkit.Patience))
		testkit.Must(t, err)
		t.Cleanup(func() { c.Quit() })
		return c, made.ID, c.Login("jp", secret)
	}
	var refused *textproto.Error
	if _, _, err := dial(account.ForQueries); !errors.As(err, &refused) || refused.Code != 530 {
		t.Errorf("a token for queries: %v", err)
	}
	c, id, err := dial(account.ForFiles)
	testkit.Must(t, err)
	if len(retr(t, c, dir+"current.tar.gz", 0)) == 0 {
		t.Error("no bytes")
	}
	testkit.Must(t, s.Accounts.RevokeToken(t.Context(), "jp", id))
	if _, err := c.List(dir); err == nil {
		t.Error("the session goes on without its token")
	}
}
