package account_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/servetest"
)

// A secret sets the password once, within an hour, unless another password was set meanwhile. It
// stays good if the password could not be set.
// Nothing is sent for names that nobody has, and nobody's mailbox is filled.
func TestReset(t *testing.T) {
	source := dbtest.SQLite(t)
	synctest.Test(t, func(t *testing.T) {
		control, err := db.Open(t.Context(), source)
		testkit.Must(t, err)
		defer control.Close()
		accounts, err := account.NewAccounts(control, nil, servetest.Cheap)
		testkit.Must(t, err)
		for _, a := range []account.Account{{Name: "alice", Email: "alice@example.jp"}, {Name: "bob"}, {Name: "eve", Email: "eve@example.jp", Suspended: true}} {
			a.Domains = []string{"*"}
			_, _, err := accounts.Create(t.Context(), a, "old password")
			testkit.Must(t, err)
		}
		begin := func(name string) (secret string) {
			t.Helper()
			testkit.Must(t, accounts.BeginReset(t.Context(), name, func(_ context.Context, _ *sql.Tx, to, made string) error {
				if to != name+"@example.jp" {
					t.Errorf("%s's secret goes to %s", name, to)
				}
				secret = made
				return nil
			}))
			return secret
		}
		reset := func(secret, chosen string, want error) {
			t.Helper()
			if _, err := accounts.Reset(t.Context(), secret, chosen); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		login := func(password string, want error) {
			t.Helper()
			if _, err := accounts.Login(t.Context(), "alice", password, ""); !errors.Is(err, want) {
				t.Errorf("%q: %v, want %v", password, err, want)
			}
		}
		for _, name := range []string{"bob", "eve", "nobody", ""} {
			if begin(name) != "" {
				t.Errorf("a mail goes to %s", name)
			}
		}
		secret := begin("alice")
		if secret == "" || begin("alice") != "" {
			t.Error("want one mail, and not another one at once")
		}
		reset(secret, "short", account.ErrInvalid)
		reset("made up", "new password", account.ErrNoReset)
		_, err = control.Exec(`CREATE TRIGGER away BEFORE UPDATE ON accounts BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`)
		testkit.Must(t, err)
		if _, err := accounts.Reset(t.Context(), secret, "new password"); err == nil {
			t.Error("a password that could not be written is set")
		}
		_, err = control.Exec(`DROP TRIGGER away`)
		testkit.Must(t, err)
		login("old password", nil)
		reset(secret, "new password", nil)
		login("old password", account.ErrCredentials)
		login("new password", nil)
		reset(secret, "third password", account.ErrNoReset)
		login("new password", nil)

		secret = begin("alice")
		_, err = accounts.Change(t.Context(), "alice", account.Change{Password: new("by the operator")})
		testkit.Must(t, err)
		reset(secret, "third password", account.ErrNoReset)
		time.Sleep(6 * time.Minute)
		secret = begin("alice")
		time.Sleep(account.ResetLife)
		reset(secret, "third password", account.ErrNoReset)
		login("by the operator", nil)
		begin("nobody")
		var left int
		testkit.Must(t, control.QueryRow(`SELECT COUNT(*) FROM password_resets`).Scan(&left))
		if left != 1 {
			t.Errorf("%d resets are kept", left)
		}
		failed := errors.New("no room for the mail")
		if err := accounts.BeginReset(t.Context(), "alice", func(context.Context, *sql.Tx, string, string) error { return failed }); !errors.Is(err, failed) {
			t.Errorf("%v", err)
		}
		if begin("alice") == "" {
			t.Error("a mail that could not be written counts")
		}
	})
}

// What a clock has made that was a year ahead is good for nobody when it is right again, and keeps
// nobody from beginning anew.
func TestResetByAClockThatWasAhead(t *testing.T) {
	source := dbtest.SQLite(t)
	var secret string
	begin := func(after time.Duration) {
		synctest.Test(t, func(t *testing.T) { // whose clock begins in the year 2000
			time.Sleep(after)
			control, err := db.Open(t.Context(), source)
			testkit.Must(t, err)
			defer control.Close()
			accounts, err := account.NewAccounts(control, nil, servetest.Cheap)
			testkit.Must(t, err)
			if after > 0 {
				_, _, err = accounts.Create(t.Context(), account.Account{Name: "alice", Email: "alice@example.jp", Domains: []string{"*"}}, "old password")
				testkit.Must(t, err)
			} else if _, err := accounts.Resettable(t.Context(), secret); !errors.Is(err, account.ErrNoReset) {
				t.Errorf("the secret of the future: %v", err)
			}
			secret = ""
			testkit.Must(t, accounts.BeginReset(t.Context(), "alice", func(_ context.Context, _ *sql.Tx, _, made string) error { secret = made; return nil }))
			if secret == "" {
				t.Error("no mail is sent")
			}
		})
	}
	begin(365 * 24 * time.Hour)
	begin(0)
}
