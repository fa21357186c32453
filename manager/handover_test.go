package manager_test

import (
	"bytes"
	"crypto/ed25519"
	"net/http"
	"strings"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
)

// A hand-over reaches the robot that gets the host, when it may visit the host, and nobody else. One
// that is cut, forged, of another host, or not wanted is refused with a reason.
func TestHandoverGoesToTheNextRobot(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	_, other, err := ed25519.GenerateKey(nil)
	testkit.Must(t, err)
	secrets := s.crew(2)
	s.add("http://a.jp/", "http://b.jp/")
	has := map[string]string{} // by host: its robot
	for robot, secret := range secrets {
		for _, l := range s.fetch(robot, secret, true) {
			has[strings.Trim(strings.TrimPrefix(l.URL, "http:"), "/")] = robot
		}
	}
	giver := has["a.jp"]
	taker := has["b.jp"]
	if giver == taker {
		t.Fatalf("both hosts are with %s", giver)
	}
	generation, err := s.CurrentGeneration(t.Context())
	testkit.Must(t, err)
	file := func(change func(*wire.Handover), key ed25519.PrivateKey) []byte {
		h := &wire.Handover{Format: wire.HandoverFormat, Robot: giver, Host: "a.jp", Generation: generation}
		change(h)
		data, err := h.File([]byte("what is known"), key)
		testkit.Must(t, err)
		return data
	}
	as := func(*wire.Handover) {}
	right := file(as, robotKey)
	post := func(robot string, data []byte) (int, string) {
		resp, body := s.do("POST", "/v1/robots/"+robot+"/handovers", robot, secrets[robot], data)
		return resp.StatusCode, body
	}
	for name, c := range map[string]struct {
		robot  string
		data   []byte
		status int
		reason string
	}{
		"cut":            {giver, right[:len(right)-3], 400, "bad_handover"},
		"no head":        {giver, []byte("{}"), 400, "bad_handover"},
		"forged":         {giver, file(as, other), 403, "bad_signature"},
		"another's":      {taker, right, 403, "not_yours"},
		"already signed": {giver, file(func(h *wire.Handover) { h.To = giver }, robotKey), 403, "not_yours"},
		"another host's": {giver, file(func(h *wire.Handover) { h.Host = "b.jp" }, robotKey), 403, "host_not_assigned"},
		"unknown host":   {giver, file(func(h *wire.Handover) { h.Host = "c.jp" }, robotKey), 403, "host_not_assigned"},
		"too large":      {giver, bytes.Repeat([]byte("x"), wire.MaxHandover+1), 413, "too_large"},
	} {
		if status, body := post(c.robot, c.data); status != c.status || !strings.Contains(body, `"`+c.reason+`"`) {
			t.Errorf("%s: %d %s, want %d %s", name, status, body, c.status, c.reason)
		}
	}
	testkit.Must(t, s.Change(t.Context(), func(tx *assign.Tx) error {
		_, err := tx.Move(t.Context(), []string{"a.jp"}, giver, taker)
		return err
	}))
	if status, body := post(giver, right); status != http.StatusNoContent {
		t.Fatalf("not taken: %d %s", status, body)
	}
	get := func(robot string) (int, string) {
		resp, body := s.do("GET", "/v1/robots/"+robot+"/handovers/"+(&wire.Handover{Host: "a.jp", SHA256: wire.Digest([]byte("what is known"))}).ID(), robot, secrets[robot], nil)
		return resp.StatusCode, body
	}
	if status, body := get(taker); status != http.StatusNotFound {
		t.Errorf("the taker must still wait, and is answered %d %s", status, body)
	}
	s.fetch(giver, secrets[giver], true) // it has stopped
	if status, body := post(giver, right); status != http.StatusConflict || !strings.Contains(body, "not_wanted") {
		t.Errorf("a hand-over that comes too late: %d %s", status, body)
	}
	if status, body := get(giver); status != http.StatusNotFound {
		t.Errorf("the giver is answered %d %s", status, body)
	}
	status, got := get(taker)
	if status != http.StatusOK {
		t.Fatalf("the taker is answered %d %s", status, got)
	}
	h, body, err := wire.OpenHandover([]byte(got), ed25519.NewKeyFromSeed(make([]byte, 32)).Public().(ed25519.PublicKey))
	if err != nil || h.To != taker || h.Robot != giver || h.Host != "a.jp" || string(body) != "what is known" {
		t.Errorf("it gets %+v with %q, %v", h, body, err)
	}
	testkit.Must(t, s.DropHandovers(t.Context(), taker)) // its program cannot take it over
	if status, _ := get(taker); status != http.StatusNotFound {
		t.Errorf("a dropped hand-over is answered %d", status)
	}
}
