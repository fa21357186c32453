package serve_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/window"
	"sheaf/serve"
	"sheaf/serve/bandwidth"
	"sheaf/serve/servetest"
)

func TestAuthenticate(t *testing.T) {
	s := servetest.New(t, nil)
	ctx := t.Context()
	made, password, err := s.Accounts.Create(ctx, serve.Account{Name: "kato", Domains: []string{"jp"}}, "")
	if err != nil || len(password) < 20 || made.Window.String() != "always" {
		t.Fatalf("%+v, %q, %v", made, password, err)
	}
	for range 2 { // the second time out of the cache
		a, err := s.Accounts.Authenticate(ctx, "kato", password)
		if err != nil || a.Name != "kato" || !slices.Equal(a.Domains, []string{"jp"}) || !a.Created.Equal(made.Created) {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	for _, wrong := range [][2]string{{"kato", ""}, {"kato", password + "x"}, {"sato", password}, {"", ""}, {serve.Anonymous, "me@example.jp"}} {
		if a, err := s.Accounts.Authenticate(ctx, wrong[0], wrong[1]); !errors.Is(err, serve.ErrCredentials) {
			t.Errorf("%q: %+v, %v", wrong, a, err)
		}
	}
	if _, _, err := s.Accounts.Create(ctx, made, "x"); !errors.Is(err, serve.ErrAccountExists) {
		t.Errorf("made twice: %v", err)
	}
	if err := s.Accounts.Delete(ctx, "kato"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Accounts.Authenticate(ctx, "kato", password); !errors.Is(err, serve.ErrCredentials) {
		t.Errorf("deleted, but %v", err)
	}
	if err := s.Accounts.Delete(ctx, "kato"); !errors.Is(err, serve.ErrNoAccount) {
		t.Errorf("deleted twice: %v", err)
	}
}

func TestAnonymousOnlyWhereConfigured(t *testing.T) {
	s := servetest.New(t, &serve.Account{Domains: []string{"jp"}})
	a, err := s.Accounts.Authenticate(t.Context(), serve.Anonymous, "anything")
	if err != nil || a.Name != serve.Anonymous {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestAccountsThatCannotBe(t *testing.T) {
	s := servetest.New(t, nil)
	for _, a := range []serve.Account{
		{Name: "", Domains: []string{"jp"}},
		{Name: "Kato", Domains: []string{"jp"}},
		{Name: "../kato", Domains: []string{"jp"}},
		{Name: "kato"},
		{Name: "kato", Domains: []string{""}},
		{Name: "kato", Domains: []string{".jp"}},
		{Name: "kato", Domains: []string{"jp/ac"}},
		{Name: "kato", Domains: []string{"*.jp"}},
		{Name: "kato", Domains: []string{"jp us"}},
		{Name: serve.Anonymous, Domains: []string{"jp"}},
	} {
		if _, _, err := s.Accounts.Create(t.Context(), a, "x"); !errors.Is(err, serve.ErrAccount) {
			t.Errorf("%+v: %v", a, err)
		}
	}
}

func TestWindow(t *testing.T) {
	s := twoDays(t)
	opening, err := window.Parse("Sat 10:00-11:00 Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	a := &serve.Account{Name: "a", Domains: []string{"jp"}, Window: opening}
	const path = "/jp/ac/waseda/www/20261120.tar.gz"
	synctest.Test(t, func(t *testing.T) { // begins on Saturday 2000-01-01 00:00 UTC, 09:00 in Tokyo
		ctx := context.Background()
		var closed *serve.ClosedError
		if _, err := s.Library.Open(ctx, a, path); !errors.As(err, &closed) || !strings.Contains(err.Error(), "from 2000-01-01T01:00:00Z, Saturday 1 January 2000 10:00 JST") {
			t.Fatalf("before the window: %v", err)
		}
		if _, err := s.Library.Stat(ctx, a, path); err != nil {
			t.Errorf("looking is not allowed: %v", err)
		}
		if f, err := s.Library.Open(ctx, a, "/README"); err != nil {
			t.Errorf("README is not allowed: %v", err)
		} else {
			f.Close()
		}

		time.Sleep(time.Until(closed.Next) + 59*time.Minute)
		f, err := s.Library.Open(ctx, a, path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r, err := f.OpenRange(ctx, 0, f.Size)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		buf := make([]byte, 10)
		time.Sleep(10 * time.Minute) // closed since nine minutes: within the grace
		if _, err := r.Read(buf); err != nil {
			t.Errorf("within the grace: %v", err)
		}
		time.Sleep(10 * time.Minute)
		if _, err := r.Read(buf); !errors.As(err, &closed) || closed.Next.Format(time.DateOnly) != "2000-01-08" {
			t.Errorf("after the grace: %v", err)
		}
		if _, err := f.Pace(ctx, 10); !errors.As(err, &closed) {
			t.Errorf("the kernel may go on after the grace: %v", err)
		}
		time.Sleep(time.Until(closed.Next))
		if _, err := r.Read(buf); err != nil {
			t.Errorf("when it has opened again: %v", err)
		}
	})
}

// What is changed of an account holds at once for those who use it, and what has
// been taken away is gone, by another process too.
func TestFollowedAccountsChange(t *testing.T) {
	s := servetest.New(t, nil)
	alice := s.Account("alice", "always", "jp")
	f := s.Accounts.Follow(alice)
	defer f.Close()
	rate, err := bandwidth.ParseRates("1MiB 09:00-18:00 Asia/Tokyo | 10MiB")
	if err != nil {
		t.Fatal(err)
	}
	quota, password := int64(5<<30), "looking-glass"
	changed, err := s.Accounts.Change(t.Context(), "alice", serve.Change{Rate: rate, Quota: &quota, Password: &password})
	if err != nil || changed.Rate.String() != rate.String() || changed.Quota != quota || changed.Domains[0] != "jp" || changed.Window.String() != "always" {
		t.Fatalf("%+v, %v", changed, err)
	}
	if now, err := f.Account(); err != nil || now.Quota != quota || now.Rate.String() != rate.String() {
		t.Errorf("%+v, %v", now, err)
	}
	if _, err := s.Accounts.Authenticate(t.Context(), "alice", "alice"); !errors.Is(err, serve.ErrCredentials) {
		t.Errorf("the old password: %v", err)
	}
	if a, err := s.Accounts.Authenticate(t.Context(), "alice", password); err != nil || a.Quota != quota {
		t.Errorf("%+v, %v", a, err)
	}
	empty, negative := "", int64(-1)
	for _, c := range []serve.Change{{Password: &empty}, {Quota: &negative}, {Domains: []string{"*.jp"}}, {Domains: []string{}}} {
		if _, err := s.Accounts.Change(t.Context(), "alice", c); !errors.Is(err, serve.ErrAccount) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := s.Accounts.Change(t.Context(), "bob", serve.Change{}); !errors.Is(err, serve.ErrNoAccount) {
		t.Errorf("%v", err)
	}
	ended := 0
	f.Notify(func() { ended++ })
	if err := s.Accounts.Delete(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Account(); !errors.Is(err, serve.ErrNoAccount) || ended != 1 {
		t.Errorf("%v; ended %d times", err, ended)
	}
	f.Notify(func() { ended++ })
	if ended != 2 {
		t.Error("who asks later is not told")
	}
}
