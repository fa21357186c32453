package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"sheaf/internal/cache"
	"sheaf/internal/problem"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// One account cannot use all the room, and all accounts together have a limit too. A refused client
// is told when to come again.
func TestLimits(t *testing.T) {
	l, places := NewLimits(), 0
	status := func(name string) int {
		places++
		_, err := l.Search(from(fmt.Sprintf("192.0.%d.1:7", places)), &account.Account{Name: name})
		var p *problem.Error
		if err == nil {
			return 0
		}
		if !errors.As(err, &p) || p.Next == "" {
			t.Fatalf("%v says no time", err)
		}
		return p.Status
	}
	leave, err := l.Search(from("198.51.100.1:7"), &account.Account{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	for range accountSearches - 1 {
		if got := status("a"); got != 0 {
			t.Fatalf("turned away: %d", got)
		}
	}
	if got := status("a"); got != http.StatusTooManyRequests {
		t.Errorf("one too many of an account: %d", got)
	}
	for n := accountSearches; n < allSearches(); n++ {
		if got := status(fmt.Sprint(n)); got != 0 {
			t.Fatalf("turned away: %d", got)
		}
	}
	if got := status("last"); got != http.StatusServiceUnavailable {
		t.Errorf("one too many of all: %d", got)
	}
	leave()
	if got := status("next"); got != 0 {
		t.Errorf("after another has left: %d", got)
	}
}

// from returns a request of a client.
func from(remote string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = remote
	return r
}

// Neither two accounts nor all accounts of one network can fill all places.
func TestSharesOfLimits(t *testing.T) {
	for name, around := range map[string]func(n int) string{
		"two accounts": func(n int) string { return fmt.Sprintf("192.0.%d.1:7", n) },
		"one network":  func(n int) string { return fmt.Sprintf("192.0.2.%d:7", n) },
		"one network of IPv6": func(n int) string {
			return fmt.Sprintf("[2001:db8:0:%x::1]:7", n)
		},
	} {
		l := NewLimits()
		for n := range 10 * allSearches() {
			who := fmt.Sprint("account ", n)
			if name == "two accounts" {
				who = fmt.Sprint("account ", n%2)
			}
			_, _ = l.Search(from(around(n%200)), &account.Account{Name: who})
		}
		if _, err := l.Search(from("203.0.113.9:7"), &account.Account{Name: "another"}); err != nil {
			t.Errorf("%s keep another account out: %v", name, err)
		}
	}
}

// A client whose file has no place in the service's temporary folder is told when to come again.
func TestNoSpace(t *testing.T) {
	g := &Guard{log: slog.New(slog.DiscardHandler)}
	w := httptest.NewRecorder()
	problem.Handler(g.log, func(w http.ResponseWriter, r *http.Request) error {
		return g.problem(w, r, fmt.Errorf("all.cdxj: %w", library.ErrNoSpace))
	}).ServeHTTP(w, httptest.NewRequest("GET", "/jp/x/all.cdxj", nil))
	if at, err := http.ParseTime(w.Header().Get("Retry-After")); w.Code != http.StatusServiceUnavailable || err != nil || at.IsZero() {
		t.Errorf("%d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
}

// Clients that leave at once have no more under way than those that wait: what was begun for them
// keeps its place to the end.
func TestWhoLeavesKeepsThePlaceOfItsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := NewLimits()
		memo, finish := cache.NewMemo(1<<20), make(chan struct{})
		running, refused := 0, 0
		ask := func(ctx context.Context, key string) {
			r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
			out, err := limits.Search(r, &account.Account{Name: "jp"})
			if err != nil {
				refused++
				return
			}
			in := NewPlace(out)
			defer in.Leave()
			build := InPlace(in, func(context.Context) (int, error) { running++; <-finish; return 7, nil })
			n, err := cache.GetOrCompute(ctx, memo, key, func(ctx context.Context) (int, int64, error) {
				n, err := build(ctx)
				return n, 8, err
			})
			in.Leave()
			if ctx.Err() == nil && (n != 7 || err != nil) {
				t.Errorf("%s: %d, %v", key, n, err)
			}
		}
		for n := range 20 {
			ctx, leave := context.WithCancel(t.Context())
			go ask(ctx, fmt.Sprint("key ", n))
			synctest.Wait()
			leave()
			synctest.Wait()
		}
		if running != 4 || refused != 16 {
			t.Errorf("%d builds are under way at once, and %d requests were refused; want 4 and 16", running, refused)
		}
		close(finish)
		synctest.Wait()
		for n := range 20 {
			ask(t.Context(), fmt.Sprint("key ", n))
		}
		if refused != 16 {
			t.Errorf("%d requests were refused when all had ended", refused-16)
		}
	})
}

// Readers who take their long answers slowly have a bounded number of files, and so a bounded part
// of the disk. Short answers take none.
func TestLongAnswersAreBounded(t *testing.T) {
	limits := NewLimits()
	begin := func(name string, bytes int) (*Spool, error) {
		s := limits.Spool(httptest.NewRequest("GET", "/", nil), &account.Account{Name: name}, false)
		_, err := s.Write(make([]byte, bytes))
		return s, err
	}
	var held []*Spool
	var refused *problem.Error
	for range 100 {
		s, err := begin("jp", SpoolMemory+1)
		if errors.As(err, &refused) {
			s.Close()
			break
		}
		testkit.Must(t, err)
		held = append(held, s)
	}
	if len(held) != 16 || refused == nil || refused.Status != http.StatusTooManyRequests {
		t.Errorf("an account has %d long answers on their way, then %v", len(held), refused)
	}
	for name, bytes := range map[string]int{"jp": SpoolMemory, "keio": SpoolMemory + 1} {
		s, err := begin(name, bytes)
		testkit.Must(t, errors.Join(err, s.Close()))
	}
	for _, s := range held {
		testkit.Must(t, s.Close())
	}
	s, err := begin("jp", SpoolMemory+1)
	testkit.Must(t, errors.Join(err, s.Close()))
}

// A full disk is no fault of a search: its reader is told to come again.
func TestLongAnswerOnAFullDisk(t *testing.T) {
	disk := testkit.SmallDisk(t, "size=512k,mode=1777")
	if disk == "" {
		return
	}
	t.Setenv("TMPDIR", disk)
	s := NewSpool(false, nil)
	defer s.Close()
	var err error
	for n := 0; n < 100 && err == nil; n++ {
		_, err = s.Write(make([]byte, 64<<10))
	}
	if !errors.Is(err, library.ErrNoSpace) {
		t.Errorf("the error is %v", err)
	}
}
