package account_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/db"
	"sheaf/serve/account"
	"sheaf/serve/servetest"
)

// While the database is away, accounts that were known go on for the configured time,
// with their passwords; what does not exist is refused as ever; after that nobody logs in.
func TestAccountsWithoutDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sheaf.db")
	synctest.Test(t, func(t *testing.T) {
		control, err := db.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		accounts, err := account.NewAccounts(control, nil, servetest.Cheap)
		if err != nil {
			t.Fatal(err)
		}
		const keep = time.Hour
		accounts.Offline(keep, 0, slog.New(slog.DiscardHandler))
		for _, name := range []string{"alice", "bob", "carol"} {
			if _, _, err := accounts.Create(t.Context(), account.Account{Name: name, Domains: []string{"jp"}}, name+"'s password"); err != nil {
				t.Fatal(err)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go accounts.Run(ctx)
		synctest.Wait()

		login := func(name, password string, want error) {
			t.Helper()
			a, err := accounts.Login(t.Context(), name, password, "")
			if !errors.Is(err, want) || want == nil && (err != nil || a.Name != name) {
				t.Errorf("%s: %v, %v; want %v", name, a, err, want)
			}
		}
		if err := accounts.Delete(t.Context(), "bob"); err != nil {
			t.Fatal(err)
		}
		login("bob", "bob's password", account.ErrCredentials) // as it is known from now on
		time.Sleep(2 * time.Minute)
		if err := control.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 { // asked, and left alone for a moment
			login("alice", "alice's password", nil)
			login("carol", "carol's password", nil) // who has never logged in here
			login("alice", "not hers", account.ErrCredentials)
			login("bob", "bob's password", account.ErrCredentials)
			login("dave", "", account.ErrCredentials)
		}
		time.Sleep(keep - time.Minute)
		login("alice", "alice's password", nil)
		time.Sleep(2 * time.Minute)
		login("alice", "alice's password", account.ErrAway)
		login("dave", "", account.ErrAway)
	})
}

// Without the setting, and before anything is known, nobody logs in without the database.
func TestAccountsUnknownWithoutDatabase(t *testing.T) {
	for _, keep := range []time.Duration{0, time.Hour} {
		control, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "sheaf.db"))
		if err != nil {
			t.Fatal(err)
		}
		accounts, err := account.NewAccounts(control, nil, servetest.Cheap)
		if err != nil {
			t.Fatal(err)
		}
		if keep > 0 {
			accounts.Offline(keep, 0, slog.New(slog.DiscardHandler))
		}
		if _, _, err := accounts.Create(t.Context(), account.Account{Name: "alice", Domains: []string{"jp"}}, "secret"); err != nil {
			t.Fatal(err)
		}
		if err := control.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := accounts.Login(t.Context(), "alice", "secret", ""); err == nil || errors.Is(err, account.ErrCredentials) {
			t.Errorf("offline for %v: %v", keep, err)
		}
	}
}
