package quorum

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// Messages that are forged, that come again, too late, or at another server, are refused with a
// reason, and change nothing.
func TestWrongMessages(t *testing.T) {
	secret := []byte("the servers' secret")
	handled, refused := 0, ""
	d := newDoor("a:1", secret, func(request) (answer, error) { handled++; return answer{}, nil }, func(reason string, _ *http.Request) { refused = reason })
	send := func(body []byte, mac string) (int, string) {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
		r.Header.Set(macHeader, mac)
		refused = ""
		d.ServeHTTP(w, r)
		text, err := io.ReadAll(w.Body)
		testkit.Must(t, err)
		return w.Code, string(text)
	}
	message := func(change func(*sent)) []byte {
		m := sent{To: "a:1", Boot: d.boot, At: time.Since(d.began).Milliseconds(), Nonce: "n", Q: request{Kind: kindLeave, Name: "x", Client: "c"}}
		change(&m)
		body, err := json.Marshal(m)
		testkit.Must(t, err)
		return body
	}
	right := message(func(*sent) {})
	if code, text := send(right, mac(secret, "request", right)); code != 200 || handled != 1 {
		t.Fatalf("a right message: %d %s", code, text)
	}
	for name, c := range map[string]struct {
		body []byte
		mac  string
		want string
	}{
		"replayed":               {right, mac(secret, "request", right), "replayed"},
		"forged":                 {message(func(m *sent) { m.Nonce = "f" }), mac([]byte("another secret"), "request", right), "forged"},
		"changed on its way":     {bytes.Replace(right, []byte(`"x"`), []byte(`"y"`), 1), mac(secret, "request", right), "forged"},
		"an answer as a request": {right, mac(secret, "answer", right), "forged"},
		"without a signature":    {right, "", "forged"},
		"for another server":     {message(func(m *sent) { m.Nonce, m.To = "o", "b:1" }), "", "is for b:1"},
		"of an earlier start":    {message(func(m *sent) { m.Nonce, m.Boot = "e", "before" }), "", ""},
		"late":                   {message(func(m *sent) { m.Nonce, m.At = "l", m.At-2*fresh.Milliseconds() }), "", ""},
		"no JSON":                {[]byte("{"), "", "not JSON"},
	} {
		if c.mac == "" && name != "without a signature" {
			c.mac = mac(secret, "request", c.body)
		}
		code, text := send(c.body, c.mac)
		var out returned
		if handled != 1 || !strings.Contains(text, c.want) || c.want == "" && (json.Unmarshal([]byte(text), &out) != nil || !out.Stale) {
			t.Errorf("%s: %d %s", name, code, text)
		}
		if code == http.StatusForbidden && refused == "" {
			t.Errorf("%s: operators are not told", name)
		}
	}

	// Nor does a client believe an answer that is forged, or to another message.
	other := []byte{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(other) == 0 {
			w.Header().Set(macHeader, mac([]byte("another secret"), "answer", other))
		} else {
			w.Header().Set(macHeader, mac(secret, "answer", other))
		}
		_, _ = w.Write(other)
	}))
	defer server.Close()
	c := &caller{secret: secret, client: server.Client(), told: make(map[string]told)}
	if _, err := c.call(t.Context(), strings.TrimPrefix(server.URL, "http://"), request{Kind: kindTime}); err != errForged {
		t.Errorf("a forged answer: %v", err)
	}
	other = []byte(`{"nonce":"another"}`)
	if _, err := c.call(t.Context(), strings.TrimPrefix(server.URL, "http://"), request{Kind: kindTime}); err == nil || !strings.Contains(err.Error(), "replayed") {
		t.Errorf("an answer to another message: %v", err)
	}
}

// A server that was removed does nothing any more, also when it comes back with what it knew; and
// one that knows other servers from its settings takes no part.
func TestRemovedAndDifferentServers(t *testing.T) {
	old := Config{Members: []string{"a", "b", "c"}}
	now := time.Now()
	keep := func(Kept) error { return nil }
	c := newServer("c", Kept{Config: old}, 0, now, keep)
	if r, err := c.handle(now, request{Kind: kindGet, Name: "x", Client: "1", TTL: time.Second, Config: old}); err != nil || !r.Lent {
		t.Fatal(r, err)
	}
	later := Config{Epoch: 7, Members: []string{"a", "b", "d"}}
	if r, err := c.handle(now, request{Kind: kindGet, Name: "x", Client: "1", TTL: time.Second, Config: later}); err != nil || !r.Removed || r.Lent {
		t.Errorf("a removed server: %+v, %v", r, err)
	}
	if r, err := c.handle(now, request{Kind: kindGet, Name: "x", Client: "1", TTL: time.Second, Config: old}); err != nil || r.Config == nil || r.Config.Epoch != 7 {
		t.Errorf("a client that has not heard of the change: %+v, %v", r, err)
	}
	a := newServer("a", Kept{Config: later}, 0, now, keep)
	if r, err := a.handle(now, request{Kind: kindGet, Name: "x", Client: "1", TTL: time.Second, Config: old}); err != nil || r.Config == nil || r.Lent {
		t.Errorf("a removed server's client: %+v, %v", r, err)
	}
	if r, err := a.handle(now, request{Kind: kindGet, Name: "x", Client: "1", TTL: time.Second, Config: Config{Epoch: 7, Members: []string{"a"}}}); err != nil || !r.Differs || r.Lent {
		t.Errorf("other servers: %+v, %v", r, err)
	}
}

// An answer goes out while the server handles later requests, so it must not change with them.
func TestAnswerStands(t *testing.T) {
	first, second := Config{Epoch: 2, Members: []string{"a"}}, Config{Epoch: 4, Members: []string{"a", "b"}}
	s := newServer("a", Kept{Config: first}, time.Second, time.Now(), func(Kept) error { return nil })
	late, err := s.handle(time.Now(), request{Kind: kindTime, Config: Config{Epoch: 1}})
	testkit.Must(t, err)
	if late.Config == nil || late.Config.Epoch != first.Epoch {
		t.Fatalf("a request by an earlier configuration was answered %+v", late)
	}
	_, err = s.handle(time.Now(), request{Kind: kindTime, Config: second})
	testkit.Must(t, err)
	if late.Config.Epoch != first.Epoch {
		t.Errorf("the answer of epoch %d became one of epoch %d", first.Epoch, late.Config.Epoch)
	}
}
