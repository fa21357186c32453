package serve_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/window"
	"sheaf/serve/account"
)

func TestWindow(t *testing.T) {
	s := twoDays(t)
	opening, err := window.Parse("Sat 10:00-11:00 Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	a := &account.Account{Name: "a", Domains: []string{"jp"}, Window: opening}
	const path = "/jp/ac/waseda/www/20261120.tar.gz"
	synctest.Test(t, func(t *testing.T) { // begins on Saturday 2000-01-01 00:00 UTC, 09:00 in Tokyo
		ctx := context.Background()
		var closed *account.ClosedError
		if _, err := s.Library.Tree.Open(ctx, a, path); !errors.As(err, &closed) || !strings.Contains(err.Error(), "from 2000-01-01T01:00:00Z, Saturday 1 January 2000 10:00 JST") {
			t.Fatalf("before the window: %v", err)
		}
		if _, err := s.Library.Tree.Stat(ctx, a, path); err != nil {
			t.Errorf("looking is not allowed: %v", err)
		}
		if f, err := s.Library.Tree.Open(ctx, a, "/README"); err != nil {
			t.Errorf("README is not allowed: %v", err)
		} else {
			f.Close()
		}

		time.Sleep(time.Until(closed.Next) + 59*time.Minute)
		f, err := s.Library.Tree.Open(ctx, a, path)
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
