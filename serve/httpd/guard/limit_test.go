package guard

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"sheaf/internal/problem"
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
