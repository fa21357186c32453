package removal_test

import (
	"bytes"
	"crypto/ed25519"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/botauth"
	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/servicekey"
	"sheaf/internal/testkit"
	"sheaf/internal/webpage"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/serve/httpd/guard"
	"sheaf/ui/removal"
)

// visited is a service with a robot that signs its requests.
type visited struct {
	*testing.T
	m      *manager.Manager
	db     *sql.DB
	router *mux.Router
	zone   *time.Location
}

const archiveName = "archive.example.jp"

func newVisited(t *testing.T) *visited {
	t.Helper()
	d, err := db.Open(t.Context(), dbtest.Source(t))
	testkit.Must(t, err)
	t.Cleanup(func() { d.Close() })
	zone, err := time.LoadLocation("Asia/Tokyo")
	testkit.Must(t, err)
	v := &visited{T: t, db: d, router: mux.NewRouter(), zone: zone, m: manager.New(d, manager.Options{Key: servicekey.Fixed(ed25519.NewKeyFromSeed(make([]byte, 32))), Dir: t.TempDir()})}
	removal.NewVisits(&webpage.Site{Name: "Archive", Contact: "ops@archive.example.jp", Zone: zone}, v.m.Roster).Register(v.router, guard.New(nil, nil, "", slog.New(slog.DiscardHandler)))
	v.join("waseda")
	return v
}

func (v *visited) join(name string) {
	v.Helper()
	token, _, err := v.m.Roster.Admit(v.Context(), name)
	testkit.Must(v, err)
	_, err = v.m.Roster.Join(v.Context(), wire.JoinRequest{Token: token, Version: "1.2.3", PublicKey: make([]byte, 32)})
	testkit.Must(v, err)
	testkit.Must(v, v.m.Roster.Subscribe(v.Context(), name))
}

func newSigner(t *testing.T, letter string) *botauth.Signer {
	t.Helper()
	s, err := botauth.New("https://"+archiveName, ed25519.NewKeyFromSeed([]byte(strings.Repeat(letter, 32))))
	testkit.Must(t, err)
	return s
}

// noted has the robot's keys noted as its heartbeat at a time brings them.
func (v *visited) noted(s *botauth.Signer, at time.Time) {
	v.Helper()
	var proofs []wire.SigningKey
	if s != nil {
		proofs = s.Proofs(at)
	}
	_, err := v.m.Roster.NoteSigning(v.Context(), "waseda", proofs, archiveName, at)
	testkit.Must(v, err)
}

// headers returns the headers of a signed request, as a site logs them.
func headers(s *botauth.Signer, host string, at time.Time) string {
	h := http.Header{"User-Agent": {"sheaf-robotd/1.2.3 (+mailto:keeper@waseda.example.ac.jp)"}}
	s.Sign(h, "https", host, at)
	var text bytes.Buffer
	fmt.Fprintf(&text, "GET / HTTP/1.1\r\nHost: %s\r\n", host)
	h.Write(&text)
	return text.String()
}

// ask sends the form, and the same as JSON. It returns the page and the findings.
func (v *visited) ask(visit removal.Visit, from string) (status int, page string, found []removal.Finding) {
	v.Helper()
	form := url.Values{"headers": {visit.Headers}, "host": {visit.Host}, "address": {visit.Address}, "time": {visit.Time}}
	r := httptest.NewRequest(http.MethodPost, api.PathRobots, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.RemoteAddr = from
	w := httptest.NewRecorder()
	v.router.ServeHTTP(w, r)
	body, err := json.Marshal(visit)
	testkit.Must(v, err)
	r = httptest.NewRequest(http.MethodPost, api.PathVisits, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.RemoteAddr = from
	j := httptest.NewRecorder()
	v.router.ServeHTTP(j, r)
	if j.Code != w.Code {
		v.Errorf("%+v: %d as a form, %d as JSON: %s", visit, w.Code, j.Code, j.Body)
	}
	var all removal.Findings
	if j.Code == http.StatusOK {
		testkit.Must(v, json.Unmarshal(j.Body.Bytes(), &all))
	}
	return w.Code, w.Body.String(), all.Findings
}

// said returns findings in short: by what, whose the visit was, and the robot.
func said(found []removal.Finding) string {
	var parts []string
	for _, f := range found {
		parts = append(parts, strings.TrimSpace(f.By+" "+f.Ours+" "+f.Robot))
	}
	return strings.Join(parts, ", ")
}

// The owner of a site learns by pasted headers whether a robot sent them: by its key of now or of
// the period before, and by no other; an expired signature and a missing one are said as such.
func TestVisitsByHeaders(t *testing.T) {
	t.Parallel()
	v, now := newVisited(t), time.Now()
	ours, other := newSigner(t, "a"), newSigner(t, "b")
	v.noted(ours, now.Add(-botauth.Period)) // so the key of before was noted then
	v.noted(ours, now)
	const site = "www.example.jp"
	good, old := headers(ours, site, now), headers(ours, site, now.Add(-botauth.Period))
	agentOnly := "User-Agent: Sheaf-Robotd/1.2.3 (+mailto:x@y.jp)\n"
	for _, c := range []struct{ name, headers, host, want, says string }{
		{"signed now", good, "", "signature yes waseda", "is good until"},
		{"expired", headers(ours, site, now.Add(-time.Hour)), "", "signature yes waseda", "has expired"},
		{"key of before", old, "", "signature yes waseda", "has expired"},
		{"key of long ago", headers(ours, site, now.Add(-3*botauth.Period)), "", "signature no", "no robot of this archive has the key"},
		{"future", headers(ours, site, now.Add(botauth.Period)), "", "signature no", "not in use"},
		{"somebody else's", headers(other, site, now), "", "signature no", "no robot of this archive has the key"},
		{"another host", good, "evil.example.jp", "signature no", "not over a request to evil.example.jp"},
		{"host in capitals with the port", strings.Replace(good, site, "WWW.Example.JP:443", 1), "", "signature yes waseda", ""},
		{"no host", strings.Replace(good, "Host: "+site+"\r\n", "", 1), "", "signature unknown", "fill in the host"},
		{"host of the form", strings.Replace(good, "Host: "+site+"\r\n", "", 1), site, "signature yes waseda", ""},
		{"as HTTP/2 has it", strings.Replace(good, "Host: ", ":authority: ", 1), "", "signature yes waseda", ""},
		{"as curl shows it", "> " + strings.ReplaceAll(strings.TrimSpace(good), "\r\n", "\r\n> "), "", "signature yes waseda", ""},
		{"broken by a mail", strings.Replace(good, `" "signature-agent`, "\"\r\n \"signature-agent", 1), "", "signature yes waseda", ""},
		{"beside another's signature", strings.NewReplacer("Signature-Input: ", "Signature-Input: cdn=(\"@path\");tag=\"x\", ", "Signature: ", "Signature: cdn=:AAAA:, ").Replace(good), "", "signature yes waseda", ""},
		{"changed", strings.Replace(good, "expires=1", "expires=2", 1), "", "signature no", "not over a request"},
		{"not ours by its form", "Host: " + site + "\nSignature-Input: sig1=(\"@authority\");created=1;keyid=\"x\"\nSignature: sig1=:AAAA:\n", "", "signature no", "not of the form"},
		{"half of it", "Signature: sheaf=:AAAA:\n" + agentOnly, "", "signature no", "not of the form"},
		{"agent alone", agentOnly, "", "user-agent unknown", "anybody can send it"},
		{"agent like it", "User-Agent: sheaf-robotdx/1\n", "", "user-agent no", ""},
		{"no headers", "hello\x00\xff\n\n\t:::\n", "", "user-agent no", "neither a signature"},
	} {
		status, _, found := v.ask(removal.Visit{Headers: c.headers, Host: c.host}, "192.0.2.1:7")
		if status != http.StatusOK || said(found) != c.want || !strings.Contains(found[0].Text, c.says) {
			t.Errorf("%s: %d, %+v, want %s: %s", c.name, status, found, c.want, c.says)
		}
		v.reset()
	}
	stored := func() (text string) {
		testkit.Must(t, v.db.QueryRowContext(t.Context(), `SELECT signing FROM robots WHERE name = 'waseda'`).Scan(&text))
		return text
	}
	before := stored()
	if v.noted(ours, now); stored() != before {
		t.Error("the same keys are written again")
	}
	v.noted(nil, now)
	if keys, err := v.m.Roster.SigningKeys(t.Context(), archiveName, now); err != nil || len(keys) != 0 {
		t.Errorf("a robot that signs no longer has %d keys in the directory, %v", len(keys), err)
	}
	if _, _, found := v.ask(removal.Visit{Headers: headers(ours, site, now.Add(-time.Minute))}, "192.0.2.1:7"); said(found) != "signature yes waseda" {
		t.Errorf("a minute before the robot ceased to sign: %+v", found)
	}
}

// Whoever has stolen a robot's key signs in vain once the robot is revoked: its keys are not in the
// directory and not taken for ours, also when a robot with another key has its name.
func TestStolenKey(t *testing.T) {
	t.Parallel()
	v, now := newVisited(t), time.Now()
	stolen, next := newSigner(t, "a"), newSigner(t, "b")
	v.noted(stolen, now)
	look := func(when string, keys int, want string) {
		t.Helper()
		listed, err := v.m.Roster.SigningKeys(t.Context(), archiveName, now)
		testkit.Must(t, err)
		_, _, found := v.ask(removal.Visit{Headers: headers(stolen, "www.example.jp", now)}, "192.0.2.1:7")
		if len(listed) != keys || said(found) != want {
			t.Errorf("%s: %d keys are listed, want %d; a signature by it: %+v", when, len(listed), keys, found)
		}
	}
	look("before", 2, "signature yes waseda")
	testkit.Must(t, v.m.Roster.Revoke(t.Context(), "waseda", time.Time{}))
	look("revoked", 0, "signature no")
	v.noted(stolen, now) // by a heartbeat that was on its way
	look("said again", 0, "signature no")
	v.join("waseda")
	look("joined anew", 0, "signature no")
	v.noted(next, now)
	look("by another key", 2, "signature no")
}

// reset forgets who has asked.
func (v *visited) reset() {
	v.router = mux.NewRouter()
	removal.NewVisits(&webpage.Site{Name: "Archive", Zone: v.zone}, v.m.Roster).Register(v.router, guard.New(nil, nil, "", slog.New(slog.DiscardHandler)))
}

// The owner of a site learns by an address and a time whether a robot visited sites from there, in
// every form in which logs have them, and nothing else.
func TestVisitsByAddress(t *testing.T) {
	t.Parallel()
	v := newVisited(t)
	night := time.Now().Add(-48 * time.Hour).Truncate(time.Hour)
	beat := func(at time.Time, from string, phase wire.Phase) {
		testkit.Must(t, v.m.Roster.NoteAddress(t.Context(), "waseda", netip.MustParseAddr(from), wire.Heartbeat{Phase: phase, EveryMS: 300_000}, at))
	}
	for minute := 0; minute <= 60; minute += 5 { // it collects for an hour, and rests
		beat(night.Add(time.Duration(minute)*time.Minute), "192.0.2.7", wire.PhaseCollecting)
	}
	for minute := 65; minute <= 120; minute += 5 {
		beat(night.Add(time.Duration(minute)*time.Minute), "192.0.2.7", wire.PhaseResting)
	}
	beat(night, "2001:db8::7", wire.PhaseIdle) // it may visit what consumers watch
	var rows int
	testkit.Must(t, v.db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM robot_addresses`).Scan(&rows))
	if rows != 2 {
		t.Errorf("%d rows for a night at one address and a moment at another", rows)
	}
	beat(night.Add(-91*24*time.Hour), "192.0.2.8", wire.PhaseCollecting)
	testkit.Must(t, v.m.Roster.NoteAddress(t.Context(), "silent since", netip.MustParseAddr("192.0.2.8"), wire.Heartbeat{Phase: wire.PhaseCollecting}, night.Add(-91*24*time.Hour)))
	beat(night.Add(time.Minute), "192.0.2.9", wire.PhaseCollecting)
	testkit.Must(t, v.db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM robot_addresses`).Scan(&rows))
	if rows != 3 {
		t.Errorf("%d rows after one that is older than ninety days", rows)
	}
	during := night.Add(30 * time.Minute)
	local := during.In(v.zone)
	for _, c := range []struct{ address, time, want string }{
		{"192.0.2.7", during.UTC().Format("02/Jan/2006:15:04:05 -0700"), "address yes"},
		{"192.0.2.7", `192.0.2.7 - - [` + local.Format("02/Jan/2006:15:04:05 -0700") + `] "GET / HTTP/1.1" 200`, "address yes"},
		{"192.0.2.7:4711", during.UTC().Format(time.RFC3339), "address yes"},
		{"::ffff:192.0.2.7", during.Format(time.RFC3339Nano), "address yes"},
		{" 192.0.2.7 ", during.UTC().Format(time.RFC1123), "address yes"},
		{"192.0.2.7", during.UTC().Format(http.TimeFormat), "address yes"},
		{"192.0.2.7", local.Format(time.RFC1123Z), "address yes"},
		{"192.0.2.7", local.Format("2006/01/02 15:04:05"), "address yes"},
		{"192.0.2.7", local.Format("2006-01-02 15:04"), "address yes"},
		{"192.0.2.7", local.Format("Mon Jan _2 15:04:05 2006"), "address yes"},
		{"192.0.2.7", local.Format("2006-01-02 15:04:05 MST"), "address yes"}, // JST, the zone of the service
		{"192.0.2.7", fmt.Sprint(during.Unix()), "address yes"},
		{"2001:DB8:0::7", night.Format(time.RFC3339), "address yes"},
		{"[2001:db8::7]", night.Format(time.RFC3339), "address yes"},
		{"2001:db8::7", during.Format(time.RFC3339), "address no"},
		{"192.0.2.7", night.Add(-11 * time.Minute).Format(time.RFC3339), "address no"},
		{"192.0.2.7", night.Add(75 * time.Minute).Format(time.RFC3339), "address no"},
		{"192.0.2.8", during.Format(time.RFC3339), "address no"},
		{"192.0.2.7", during.UTC().Format("2006-01-02 15:04:05"), "address no"}, // nine hours before
		{"192.0.2.7", time.Now().AddDate(1, 0, 0).Format(time.RFC3339), "address unknown"},
		{"192.0.2.7", time.Now().AddDate(-1, 0, 0).Format(time.RFC3339), "address unknown"},
		{"192.0.2.7", "yesterday", "400"}, {"192.0.2.7", "2026-11-29 03:04:05 XST", "400"}, {"192.0.2.7", "", "400"}, {"", "2026-11-29", "400"},
		{"www.example.jp", during.Format(time.RFC3339), "400"}, {"192.0.2.7/24", during.Format(time.RFC3339), "400"}, {"192.0.2.\xff", strings.Repeat("9", 500), "400"},
	} {
		status, page, found := v.ask(removal.Visit{Address: c.address, Time: c.time}, "198.51.100.1:7")
		got := said(found)
		if status != http.StatusOK {
			got = fmt.Sprint(status)
		}
		if got != c.want || strings.Contains(strings.Join(strings.Fields(page[strings.Index(page, "<main"):strings.Index(page, "<h2")]), " "), "waseda") {
			t.Errorf("%q at %q: %s, want %s", c.address, c.time, got, c.want)
		}
		v.reset()
	}
}

// A paste of nothing but lines takes little memory: anybody may send it. It does not run in
// parallel, since it counts what the process allocates.
func TestVisitsOfManyLines(t *testing.T) {
	v := newVisited(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	status, _, found := v.ask(removal.Visit{Headers: "User-Agent: x\n" + strings.Repeat("\n", 64_000)}, "192.0.2.1:7")
	runtime.ReadMemStats(&after)
	if said(found) != "user-agent no" {
		t.Errorf("%d: %q", status, said(found))
	}
	if n, most := after.TotalAlloc-before.TotalAlloc, uint64(64<<20); n > most {
		t.Errorf("%d bytes were allocated, more than %d", n, most)
	}
}

// What is pasted has a limit, and so has who asks: in all processes by network, so that nobody can
// try all addresses and times.
func TestVisitsAreBounded(t *testing.T) {
	t.Parallel()
	v := newVisited(t)
	if status, page, _ := v.ask(removal.Visit{Headers: strings.Repeat("a: <b>\r\n", 9000)}, "192.0.2.1:7"); status != http.StatusBadRequest || strings.Contains(page, "<b>\r") {
		t.Errorf("72 KB: %d", status)
	}
	if status, _, _ := v.ask(removal.Visit{Headers: strings.Repeat("a: b\r\n", 200_000)}, "192.0.2.1:7"); status != http.StatusRequestEntityTooLarge {
		t.Errorf("1.2 MB: %d", status)
	}
	last := 0
	for range 20 {
		last, _, _ = v.ask(removal.Visit{Headers: "User-Agent: x"}, "[2001:db8::1]:7")
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("after 40 checks: %d", last)
	}
	if status, _, _ := v.ask(removal.Visit{Headers: "User-Agent: x"}, "[2001:db8::2]:7"); status != http.StatusTooManyRequests {
		t.Errorf("of the same /64: %d", status)
	}
}
