package account_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/serve/account"
	"sheaf/serve/servetest"
)

func TestAuthenticate(t *testing.T) {
	s := servetest.New(t, nil)
	ctx := t.Context()
	made, password, err := s.Accounts.Create(ctx, account.Account{Name: "kato", Domains: []string{"jp"}}, "")
	if err != nil || len(password) < 20 || made.Window.String() != "always" {
		t.Fatalf("%+v, %q, %v", made, password, err)
	}
	for range 2 { // the second time out of the cache
		a, err := s.Accounts.Login(ctx, "kato", password, "")
		if err != nil || a.Name != "kato" || !slices.Equal(a.Domains, []string{"jp"}) || !a.Created.Equal(made.Created) {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	for _, wrong := range [][2]string{{"kato", ""}, {"kato", password + "x"}, {"sato", password}, {"", ""}, {account.Anonymous, "me@example.jp"}} {
		if a, err := s.Accounts.Login(ctx, wrong[0], wrong[1], ""); !errors.Is(err, account.ErrCredentials) {
			t.Errorf("%q: %+v, %v", wrong, a, err)
		}
	}
	if _, _, err := s.Accounts.Create(ctx, made, "x"); !errors.Is(err, account.ErrExists) {
		t.Errorf("made twice: %v", err)
	}
	if err := s.Accounts.Delete(ctx, "kato"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Accounts.Login(ctx, "kato", password, ""); !errors.Is(err, account.ErrCredentials) {
		t.Errorf("deleted, but %v", err)
	}
	if err := s.Accounts.Delete(ctx, "kato"); !errors.Is(err, account.ErrNoAccount) {
		t.Errorf("deleted twice: %v", err)
	}
}

func TestAnonymousOnlyWhereConfigured(t *testing.T) {
	s := servetest.New(t, &account.Account{Domains: []string{"jp"}})
	a, err := s.Accounts.Login(t.Context(), account.Anonymous, "anything", "")
	if err != nil || a.Name != account.Anonymous {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestAccountsThatCannotBe(t *testing.T) {
	s := servetest.New(t, nil)
	for _, a := range []account.Account{
		{Name: "", Domains: []string{"jp"}},
		{Name: "Kato", Domains: []string{"jp"}},
		{Name: "../kato", Domains: []string{"jp"}},
		{Name: "kato"},
		{Name: "kato", Domains: []string{""}},
		{Name: "kato", Domains: []string{".jp"}},
		{Name: "kato", Domains: []string{"jp/ac"}},
		{Name: "kato", Domains: []string{"*.jp"}},
		{Name: "kato", Domains: []string{"jp us"}},
		{Name: account.Anonymous, Domains: []string{"jp"}},
	} {
		if _, _, err := s.Accounts.Create(t.Context(), a, "x"); !errors.Is(err, account.ErrInvalid) {
			t.Errorf("%+v: %v", a, err)
		}
	}
}

// What is changed of an account holds at once for those who use it, and what has
// been taken away is gone, by another process too.
func TestFollowedAccountsChange(t *testing.T) {
	s := servetest.New(t, nil)
	alice := s.Account("alice", "always", "jp")
	f := s.Accounts.Follow(alice)
	defer f.Close()
	rate, err := account.ParseRates("1MiB 09:00-18:00 Asia/Tokyo | 10MiB")
	if err != nil {
		t.Fatal(err)
	}
	quota, password := int64(5<<30), "looking-glass"
	changed, err := s.Accounts.Change(t.Context(), "alice", account.Change{Rate: rate, Quota: &quota, Password: &password})
	if err != nil || changed.Rate.String() != rate.String() || changed.Quota != quota || changed.Domains[0] != "jp" || changed.Window.String() != "always" {
		t.Fatalf("%+v, %v", changed, err)
	}
	if now, err := f.Account(); err != nil || now.Quota != quota || now.Rate.String() != rate.String() {
		t.Errorf("%+v, %v", now, err)
	}
	if _, err := s.Accounts.Login(t.Context(), "alice", "alice", ""); !errors.Is(err, account.ErrCredentials) {
		t.Errorf("the old password: %v", err)
	}
	if a, err := s.Accounts.Login(t.Context(), "alice", password, ""); err != nil || a.Quota != quota {
		t.Errorf("%+v, %v", a, err)
	}
	empty, negative := "", int64(-1)
	for _, c := range []account.Change{{Password: &empty}, {Quota: &negative}, {Domains: []string{"*.jp"}}, {Domains: []string{}}} {
		if _, err := s.Accounts.Change(t.Context(), "alice", c); !errors.Is(err, account.ErrInvalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := s.Accounts.Change(t.Context(), "bob", account.Change{}); !errors.Is(err, account.ErrNoAccount) {
		t.Errorf("%v", err)
	}
	ended := 0
	f.Notify(func() { ended++ })
	if err := s.Accounts.Delete(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Account(); !errors.Is(err, account.ErrNoAccount) || ended != 1 {
		t.Errorf("%v; ended %d times", err, ended)
	}
	f.Notify(func() { ended++ })
	if ended != 2 {
		t.Error("who asks later is not told")
	}
}

// The terms that an account's owner has accepted are stored, told, replaced as a whole and removed.
func TestTerms(t *testing.T) {
	s := servetest.New(t, nil)
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	want := account.Terms{Name: "research-2026", Purpose: "language models of 日本語", Accepted: at}
	made, _, err := s.Accounts.Create(t.Context(), account.Account{Name: "alice", Domains: []string{"jp"}, Terms: want}, "")
	if err != nil || made.Terms != want {
		t.Fatalf("%+v, %v", made.Terms, err)
	}
	stored := func() account.Terms {
		t.Helper()
		a, err := s.Accounts.Account(t.Context(), "alice")
		if err != nil {
			t.Fatal(err)
		}
		return a.Terms
	}
	if got := stored(); got != want {
		t.Errorf("stored are %+v", got)
	}
	email := "alice@example.jp"
	if a, err := s.Accounts.Change(t.Context(), "alice", account.Change{Email: &email}); err != nil || a.Terms != want {
		t.Errorf("after another change %+v, %v", a.Terms, err)
	}
	for _, bad := range []account.Terms{
		{Name: "Research", Purpose: "x", Accepted: at}, {Purpose: "x", Accepted: at}, {Name: "research", Purpose: "x"}, {Name: "research", Accepted: at},
		{Name: "research", Purpose: "x\ny", Accepted: at}, {Name: "research", Purpose: strings.Repeat("x", 1001), Accepted: at},
	} {
		if _, err := s.Accounts.Change(t.Context(), "alice", account.Change{Terms: &bad}); !errors.Is(err, account.ErrInvalid) || stored() != want {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if a, err := s.Accounts.Change(t.Context(), "alice", account.Change{Terms: new(account.Terms)}); err != nil || a.Terms.Name != "" || stored().Name != "" {
		t.Errorf("removed: %+v, %v", a.Terms, err)
	}
}
