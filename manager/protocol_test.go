package manager_test

import (
	"bytes"
	"crypto/ed25519"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
)

// TestProtocolExamples replays every example of PROTOCOL.md in turn, against one manager.
func TestProtocolExamples(t *testing.T) {
	doc, err := os.ReadFile("PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, nil)
	token, _, err := s.Admit(t.Context(), "robot-1")
	if err != nil {
		t.Fatal(err)
	}
	s.add("http://www.etl.go.jp/")
	var secret string
	examples := regexp.MustCompile("(?s)```\n(> .*?)```").FindAllStringSubmatch(string(doc), -1)
	if len(examples) < 8 {
		t.Fatalf("only %d examples found", len(examples))
	}
	for _, ex := range examples {
		e := parseExample(t, strings.ReplaceAll(ex[1], "TOKEN", token))
		var resp *http.Response
		var body string
		if secret == "" {
			resp, body = s.do(e.method, e.path, "", "", e.body)
			if m := regexp.MustCompile(`"secret":"([^"]+)"`).FindStringSubmatch(body); m != nil {
				secret = m[1]
			}
		} else {
			resp, body = s.do(e.method, e.path, "robot-1", secret, e.body)
		}
		if strconv.Itoa(resp.StatusCode) != e.status || resp.Header.Get("Content-Type") != e.contentType {
			t.Errorf("%s %s: %d %s, want %s %s\n%s", e.method, e.path, resp.StatusCode, resp.Header.Get("Content-Type"), e.status, e.contentType, body)
			continue
		}
		if e.unzip {
			body = unzip(t, body)
		}
		want := "^" + strings.ReplaceAll(regexp.QuoteMeta(e.answer), "…", ".*") + "$"
		if !regexp.MustCompile(want).MatchString(strings.TrimSpace(body)) {
			t.Errorf("%s %s: got %swant %s", e.method, e.path, body, e.answer)
		}
	}
}

type example struct {
	method, path        string
	body                []byte
	status, contentType string
	answer              string
	unzip               bool
}

// parseExample reads lines "> METHOD path", "> body"…, "< status type", "< body"….
func parseExample(t *testing.T, text string) example {
	t.Helper()
	var sent, got []string
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "> "); ok {
			sent = append(sent, rest)
		} else if rest, ok := strings.CutPrefix(line, "< "); ok {
			got = append(got, rest)
		} else {
			t.Fatalf("PROTOCOL.md: example line %q begins with neither > nor <", line)
		}
	}
	var e example
	e.method, e.path, _ = strings.Cut(sent[0], " ")
	e.status, e.contentType, _ = strings.Cut(got[0], " ")
	var plain, zipped strings.Builder
	for _, line := range sent[1:] {
		if rest, ok := strings.CutPrefix(line, "gzip:"); ok {
			zipped.WriteString(strings.ReplaceAll(rest, `\t`, "\t") + "\n")
		} else {
			plain.WriteString(line + "\n")
		}
	}
	e.body = []byte(plain.String())
	if zipped.Len() > 0 {
		e.body = append(e.body, zip(zipped.String())...)
	}
	e.answer = strings.Join(got[1:], "\n")
	e.answer, e.unzip = strings.CutPrefix(e.answer, "gzip:")
	return e
}

// A hand-over reaches the robot that gets the host, when it may visit the host, and nobody else.
// One that is cut, forged, of another host, or not wanted is refused with a reason.
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
		body := []byte("what is known")
		head, err := h.File(int64(len(body)), wire.Digest(body), key)
		testkit.Must(t, err)
		return append(head, body...)
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
		"another host's": {giver, file(func(h *wire.Handover) { h.Host = "b.jp" }, robotKey), 409, "not_wanted"},
		"unknown host":   {giver, file(func(h *wire.Handover) { h.Host = "c.jp" }, robotKey), 409, "not_wanted"},
		"too large":      {giver, bytes.Repeat([]byte("x"), wire.MaxHandoverHead+2), 413, "too_large"},
	} {
		if status, body := post(c.robot, c.data); status != c.status || !strings.Contains(body, `"`+c.reason+`"`) {
			t.Errorf("%s: %d %s, want %d %s", name, status, body, c.status, c.reason)
		}
	}
	testkit.Must(t, s.Change(t.Context(), func(tx *assign.Tx) error {
		_, err := tx.Move(t.Context(), assign.Transfer{Hosts: []string{"a.jp"}, From: giver, To: taker})
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
	h, r, err := wire.OpenHandover(strings.NewReader(got), ed25519.NewKeyFromSeed(make([]byte, 32)).Public().(ed25519.PublicKey))
	testkit.Must(t, err)
	body, err := io.ReadAll(r)
	if err != nil || h.To != taker || h.Robot != giver || h.Host != "a.jp" || string(body) != "what is known" {
		t.Errorf("it gets %+v with %q, %v", h, body, err)
	}
	testkit.Must(t, s.DropHandovers(t.Context(), taker)) // its program cannot take it over
	if status, _ := get(taker); status != http.StatusNotFound {
		t.Errorf("a dropped hand-over is answered %d", status)
	}
}

// A large hand-over is kept in parts. One that is cut or altered on its way leaves the one before,
// and what was kept of it is deleted. The same may come again.
func TestLargeHandover(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s := start(t, nil)
	secret := s.join("r1")
	s.add("http://a.jp/")
	s.fetch("r1", secret, true)
	generation, err := s.CurrentGeneration(t.Context())
	testkit.Must(t, err)
	random := make([]byte, 5<<19)
	rand.NewChaCha8([32]byte{1}).Read(random)
	file := func(body []byte) []byte {
		h := &wire.Handover{Format: wire.HandoverFormat, Robot: "r1", Host: "a.jp", Generation: generation}
		head, err := h.File(int64(len(body)), wire.Digest(body), robotKey)
		testkit.Must(t, err)
		return append(head, body...)
	}
	post := func(data []byte, want int) {
		t.Helper()
		if resp, text := s.do("POST", "/v1/robots/r1/handovers", "r1", secret, data); resp.StatusCode != want {
			t.Fatalf("%d %s, want %d", resp.StatusCode, text, want)
		}
	}
	first, second := file(random[:len(random)/2]), file(random)
	post(first, 204)
	altered := bytes.Clone(second)
	altered[len(altered)-5] ^= 1
	post(second[:len(second)-9], 400)
	post(altered, 400)
	post(append(bytes.Clone(second), 'x'), 400)
	parts := func() (n, bytes int) {
		testkit.Must(t, s.db.QueryRowContext(t.Context(), `SELECT COUNT(*), SUM(LENGTH(body)) FROM handover_parts`).Scan(&n, &bytes))
		return n, bytes
	}
	if n, size := parts(); n != 2 || size != len(random)/2 {
		t.Errorf("%d parts of %d bytes are kept, and only the first is whole", n, size)
	}
	post(second, 204)
	post(second, 204) // the answer was lost
	if n, size := parts(); n != 3 || size != len(random) {
		t.Errorf("%d parts of %d bytes are kept of the second", n, size)
	}
	s.join("r2")
	testkit.Must(t, s.Change(t.Context(), func(tx *assign.Tx) error {
		_, err := tx.Move(t.Context(), assign.Transfer{Hosts: []string{"a.jp"}, From: "r1", To: "r2"})
		return err
	}))
	s.fetch("r1", secret, true)
	h, body, err := s.Assignments.Handover(t.Context(), "r2", (&wire.Handover{Host: "a.jp", SHA256: wire.Digest(random)}).ID())
	testkit.Must(t, err)
	if got, err := io.ReadAll(body); err != nil || !bytes.Equal(got, random) || h.Size != int64(len(random)) {
		t.Errorf("the next robot gets %d bytes, %v", len(got), err)
	}
}
