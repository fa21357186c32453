package guard

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"sheaf/internal/problem"
	"sheaf/serve/account"
)

// One account cannot use all the room, and all accounts together have a limit too. A refused client
// is told when to come again.
func TestLimits(t *testing.T) {
	l := NewLimits()
	status := func(name string) int {
		_, err := l.Search(httptest.NewRequest("GET", "/", nil), &account.Account{Name: name})
		var p *problem.Error
		if err == nil {
			return 0
		}
		if !errors.As(err, &p) || p.Next == "" {
			t.Fatalf("%v says no time", err)
		}
		return p.Status
	}
	leave, err := l.Search(httptest.NewRequest("GET", "/", nil), &account.Account{Name: "a"})
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
	if got := status("a"); got != 0 {
		t.Errorf("after another has left: %d", got)
	}
}
