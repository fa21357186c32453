package account_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/servetest"
)

func tokenAccounts(t *testing.T, source string) *account.Accounts {
	t.Helper()
	control, err := db.Open(t.Context(), source)
	testkit.Must(t, err)
	t.Cleanup(func() { control.Close() })
	accounts, err := account.NewAccounts(control, nil, servetest.Cheap)
	testkit.Must(t, err)
	for _, name := range []string{"alice", "bob"} {
		_, _, err := accounts.Create(t.Context(), account.Account{Name: name, Domains: []string{"jp"}}, name+"'s password")
		testkit.Must(t, err)
	}
	return accounts
}

// A token is good where the password is, for its own account and its uses, until it is revoked or
// its account is removed. The database does not have it.
func TestTokens(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for engine, source := range map[string]func(testing.TB) string{"SQLite": dbtest.SQLite, "PostgreSQL": dbtest.Postgres} {
		t.Run(engine, func(t *testing.T) {
			accounts := tokenAccounts(t, source(t))
			made, secret, err := accounts.CreateToken(t.Context(), "alice", account.Token{Name: "mirror", Uses: []account.Use{account.ForFiles}})
			testkit.Must(t, err)
			if !strings.HasPrefix(secret, account.TokenPrefix) || strings.Contains(made.ID, secret) {
				t.Errorf("%q %+v", secret, made)
			}
			is := func(name, secret string, want error) *account.Account {
				t.Helper()
				a, err := accounts.Login(t.Context(), name, secret, "192.0.2.1:7")
				if !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", name, err, want)
				}
				return a
			}
			a := is("alice", secret, nil)
			if a.Name != "alice" || !a.May(account.ForFiles, account.ForQueries) || a.May(account.ForWatches) || a.May() || a.Token().ID != made.ID {
				t.Errorf("%+v", a)
			}
			if a := is("alice", "alice's password", nil); !a.May() || a.Token() != nil {
				t.Errorf("by password: %+v", a)
			}
			is("bob", secret, account.ErrCredentials)
			is("alice", account.TokenPrefix+strings.Repeat("a", 26), account.ErrCredentials)
			if a, err := accounts.LoginToken(t.Context(), secret, "192.0.2.1:7"); err != nil || a.Name != "alice" {
				t.Errorf("%v, %v", a, err)
			}
			if _, _, err := accounts.Enter(t.Context(), "alice", secret, "192.0.2.1:7"); !errors.Is(err, account.ErrCredentials) {
				t.Errorf("a token begins a session: %v", err)
			}
			list, err := accounts.Tokens(t.Context(), "alice")
			if err != nil || len(list) != 1 || list[0].Used.IsZero() {
				t.Errorf("%+v, %v", list, err)
			}
			follow := accounts.Follow(a)
			defer follow.Close()
			if err := accounts.RevokeToken(t.Context(), "bob", made.ID); !errors.Is(err, account.ErrNoToken) {
				t.Errorf("bob revokes alice's token: %v", err)
			}
			testkit.Must(t, accounts.RevokeToken(t.Context(), "alice", made.ID))
			is("alice", secret, account.ErrCredentials)
			if _, err := follow.Account(); !errors.Is(err, account.ErrNoAccount) {
				t.Errorf("a session goes on with a token that is revoked: %v", err)
			}
			_, secret, err = accounts.CreateToken(t.Context(), "alice", account.Token{Name: "another", Uses: []account.Use{account.ForAll}})
			testkit.Must(t, err)
			if _, err := accounts.Change(t.Context(), "alice", account.Change{Suspended: new(true)}); err != nil {
				t.Fatal(err)
			}
			is("alice", secret, account.ErrSuspended)
			testkit.Must(t, accounts.Delete(t.Context(), "alice"))
			_, _, err = accounts.Create(t.Context(), account.Account{Name: "alice", Domains: []string{"jp"}}, "new")
			testkit.Must(t, err)
			is("alice", secret, account.ErrCredentials)
		})
	}
}

func TestTokensThatCannotBe(t *testing.T) {
	accounts := tokenAccounts(t, dbtest.SQLite(t))
	files := []account.Use{account.ForFiles}
	for name, c := range map[string]struct {
		account string
		token   account.Token
		want    error
	}{
		"no name":    {"alice", account.Token{Uses: files}, account.ErrInvalid},
		"long name":  {"alice", account.Token{Name: strings.Repeat("x", 65), Uses: files}, account.ErrInvalid},
		"no use":     {"alice", account.Token{Name: "x"}, account.ErrInvalid},
		"odd use":    {"alice", account.Token{Name: "x", Uses: []account.Use{"admin"}}, account.ErrInvalid},
		"past":       {"alice", account.Token{Name: "x", Uses: files, Expires: time.Now().Add(-time.Hour)}, account.ErrInvalid},
		"no account": {"carol", account.Token{Name: "x", Uses: files}, account.ErrNoAccount},
	} {
		if _, _, err := accounts.CreateToken(t.Context(), c.account, c.token); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var err error
	for range 51 {
		_, _, err = accounts.CreateToken(t.Context(), "alice", account.Token{Name: "x", Uses: files})
	}
	if !errors.Is(err, account.ErrManyTokens) {
		t.Errorf("51 tokens: %v", err)
	}
	if _, err := accounts.Change(t.Context(), "alice", account.Change{Password: new(account.TokenPrefix + strings.Repeat("a", 26))}); !errors.Is(err, account.ErrInvalid) {
		t.Errorf("a password that looks like a token: %v", err)
	}
}

// A token ends at its time, also for who is logged in with it, and it is good while the database is
// away, as the password is.
func TestTokensExpireAndOutlastTheDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sheaf.db")
	synctest.Test(t, func(t *testing.T) {
		control, err := db.Open(t.Context(), path)
		testkit.Must(t, err)
		accounts, err := account.NewAccounts(control, nil, servetest.Cheap)
		testkit.Must(t, err)
		accounts.Offline(time.Hour, 0, slog.New(slog.DiscardHandler))
		_, _, err = accounts.Create(t.Context(), account.Account{Name: "alice", Domains: []string{"jp"}}, "secret")
		testkit.Must(t, err)
		made := func(expires time.Duration) string {
			_, secret, err := accounts.CreateToken(t.Context(), "alice", account.Token{Name: "x", Uses: []account.Use{account.ForAll}, Expires: time.Now().Add(expires)})
			testkit.Must(t, err)
			return secret
		}
		short, long := made(time.Minute), made(24*time.Hour)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go accounts.Run(ctx)
		go accounts.Watch(ctx, slog.New(slog.DiscardHandler))
		synctest.Wait()
		is := func(secret string, want error) *account.Account {
			t.Helper()
			a, err := accounts.Login(t.Context(), "alice", secret, "")
			if !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
			return a
		}
		follow := accounts.Follow(is(short, nil))
		defer follow.Close()
		time.Sleep(2 * time.Minute)
		is(short, account.ErrCredentials)
		if _, err := follow.Account(); !errors.Is(err, account.ErrNoAccount) {
			t.Errorf("a session goes on with a token that has expired: %v", err)
		}
		testkit.Must(t, control.Close())
		is(long, nil)
		is(short, account.ErrCredentials)
		time.Sleep(2 * time.Hour)
		is(long, account.ErrAway)
	})
}
