package client

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// The manager's clock is 90 s behind. Every answer tells it to the second, several
// together closer; a clock that is set is noticed.
func TestClock(t *testing.T) {
	synctest.Test(t, testClock)
}

func testClock(t *testing.T) {
	random := testkit.Random(t)
	behind := 90 * time.Second
	m := New([]string{"http://manager.test"}, "r1", "", &http.Client{
		Transport: dated(func() time.Time {
			testkit.Moment(random, 10*time.Millisecond) // on the way
			return time.Now().Add(-behind)
		}),
	})
	if m.Clock() != nil {
		t.Error("a clock is known before the first answer")
	}
	ask := func(times int) *wire.Clock {
		t.Helper()
		for range times {
			if err := m.Subscribe(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(37 * time.Millisecond)
		}
		return m.Clock()
	}
	for _, times := range []int{1, 40} {
		c := ask(times)
		if off := c.OffsetMS - behind.Milliseconds(); off < -c.ErrorMS || off > c.ErrorMS {
			t.Errorf("after %d answers: %+v, the offset is %v", times, c, behind)
		}
	}
	first := m.Clock().ErrorMS
	behind = -2 * time.Hour
	if c := ask(1); c.OffsetMS > -7_100_000 {
		t.Errorf("after the manager's clock was set: %+v", c)
	}
	if first > 520 {
		t.Errorf("40 answers tell the offset to %d ms only", first)
	}
}

// dated answers every request with nothing but the time that it tells.
type dated func() time.Time

func (d dated) RoundTrip(req *http.Request) (*http.Response, error) {
	at := d().UTC().Format(http.TimeFormat)
	return &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{"Date": {at}}, Body: http.NoBody, Request: req}, nil
}

// A client that knows no manager says so.
func TestNoEndpoint(t *testing.T) {
	if _, _, err := New(nil, "r1", "", http.DefaultClient).List(t.Context(), ""); !errors.Is(err, errNoEndpoint) {
		t.Errorf("%v, want %v", err, errNoEndpoint)
	}
}

// TestEndpoints: the URL that answered last is asked first, one that fails is passed over for
// longer and longer, and where all fail one is tried all the same.
func TestEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoints([]string{"a/", "b", "c"})
		dead := map[string]bool{}
		var asked []string
		ask := func(base string) error {
			asked = append(asked, base)
			if dead[base] {
				return &unreachable{err: errors.New(base + " is dead")}
			}
			return nil
		}
		expect := func(want string, ok bool) {
			t.Helper()
			asked = nil
			err := e.try(ask)
			if got := strings.Join(asked, ""); got != want || (err == nil) != ok {
				t.Fatalf("asked %s, want %s: %v", got, want, err)
			}
		}
		expect("a", true)
		dead["a"] = true
		expect("ab", true)
		expect("b", true)
		delete(dead, "a") // it stays with b, which answers
		expect("b", true)
		time.Sleep(time.Minute)
		dead["b"] = true
		expect("bc", true)
		dead["c"] = true
		expect("ca", true)
		dead["a"] = true
		expect("a", false) // b and c are being passed over
		if e.try(ask) == nil || len(asked) != 2 {
			t.Fatalf("with all passed over, asked %v: want one more, that which is due soonest", asked)
		}
		time.Sleep(2 * passOverMax)
		expect("abc", false)
		clear(dead)
		time.Sleep(2 * passOverMax)
		expect("a", true)
		// What a manager that is overloaded asks for is obeyed.
		asked = nil
		err := e.try(func(base string) error {
			asked = append(asked, base)
			if base == "a" {
				return &unreachable{time.Hour, errors.New("full")}
			}
			return nil
		})
		if err != nil || strings.Join(asked, "") != "ab" {
			t.Fatal(asked, err)
		}
		dead["b"], dead["c"] = true, true
		time.Sleep(30 * time.Minute)
		expect("bc", false)
		// An answer is an answer: a robot that one manager does not know, none knows.
		delete(dead, "b")
		time.Sleep(passOverMax * 2)
		refusal := errors.New("who are you?")
		if err := e.try(func(string) error { return refusal }); err != refusal {
			t.Error(err)
		}
	})
}
