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
		if file, _, err := f.Local(); file != nil || err != nil {
			t.Errorf("a file with a deadline was handed to the kernel: %v", err)
		}
	})
}
