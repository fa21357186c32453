package service

import (
	"context"
	"database/sql"
	"fmt"
	"hash/crc32"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"sheaf/ingest/inbox"
	"sheaf/internal/db"
	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
	"sheaf/internal/wire"
	"sheaf/serve/account"
	"sheaf/serve/servetest"
)

// browse sends what a browser sends of an operator, of an account, or of nobody.
func browse(s *Service, method, path, user, password string, form url.Values, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
	r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1234", crc32.ChecksumIEEE([]byte(path))%250+1) // wrong passwords are counted by address
	r.Header.Set("Accept", "text/html")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if user != "" {
		r.SetBasicAuth(user, password)
	}
	w := httptest.NewRecorder()
	s.router.ServeHTTP(w, r)
	return w
}

// Every page of the board is for operators alone, who log in by a browser; what they do needs a
// form of this site.
func TestBoardIsForOperators(t *testing.T) {
	s := newTestService(t)
	accounts, err := account.NewAccounts(s.state.db, nil, servetest.Cheap)
	testkit.Must(t, err)
	_, password, err := accounts.Create(t.Context(), account.Account{Name: "reader", Domains: []string{"*"}}, "")
	testkit.Must(t, err)
	get := []string{"/board/", "/board/transfers", "/board/transfers?by=month", "/board/batches?state=quarantined", "/board/hosts", "/board/hosts?state=accepted",
		"/board/robots", "/board/levelling", "/board/releases", "/board/store", "/board/watches"}
	post := []string{"/board/publish", "/board/batches", "/board/hosts", "/board/robots/waseda", "/board/releases"}
	for _, path := range get {
		if w := browse(s, http.MethodGet, path, "", "", nil); w.Code != 303 || !strings.HasPrefix(w.Header().Get("Location"), "/login?next=%2Fboard%2F") {
			t.Errorf("GET %s as nobody: %d %v", path, w.Code, w.Header())
		}
		if w := browse(s, http.MethodGet, path, "", "", nil, "Accept", "*/*"); w.Code != 401 || !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Bearer ") {
			t.Errorf("GET %s as a program without a token: %d %v", path, w.Code, w.Header())
		}
		for who, want := range map[string]int{"reader": 401, "operator": 200} {
			secret := map[string]string{"reader": password, "operator": s.OperatorToken()}[who]
			w := browse(s, http.MethodGet, path, who, secret, nil)
			if w.Code != want || want == 401 && !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Basic ") {
				t.Errorf("GET %s as %q: %d %v", path, who, w.Code, w.Header())
			}
			if want == 200 && !strings.Contains(w.Body.String(), `<a href="/board/">Board</a>`) {
				t.Errorf("the head of %s does not lead to the board", path)
			}
		}
	}
	for _, path := range post {
		if w := browse(s, http.MethodPost, path, "", "", nil); w.Code != 401 {
			t.Errorf("POST %s as nobody: %d", path, w.Code)
		}
		if w := browse(s, http.MethodPost, path, "operator", s.OperatorToken(), nil, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"); w.Code != 403 {
			t.Errorf("POST %s from another site: %d", path, w.Code)
		}
	}
	if w := browse(s, http.MethodPost, "/board/batches", "operator", s.OperatorToken(), url.Values{"act": {"release"}, "batch": {"<b>"}}); w.Code != 404 {
		t.Errorf("a batch that is not there: %d %s", w.Code, w.Body)
	}
	if w := browse(s, http.MethodPost, "/board/batches", "operator", s.OperatorToken(), url.Values{"act": {"burn"}}); w.Code != 400 {
		t.Errorf("an act that is none: %d %s", w.Code, w.Body)
	}
}

// Hosts that wait are decided by a form. Names that are markup, which are refused where they come
// in, are shown as text.
func TestHostsAreDecidedOnTheBoard(t *testing.T) {
	s := newTestService(t)
	_, err := s.state.db.ExecContext(t.Context(), `INSERT INTO hosts (name, state, source, created, grp)
		VALUES ('www.example.jp', 'pending', 'waseda', 0, 'www.example.jp'), ('<script>alert(1)</script>', 'pending', '<b>x</b>', 0, 'x')`)
	testkit.Must(t, err)
	page := browse(s, http.MethodGet, "/board/hosts", "ops", s.OperatorToken(), nil).Body.String()
	if !strings.Contains(page, "www.example.jp") || strings.Contains(page, "<script>") || strings.Contains(page, "<b>x") {
		t.Errorf("%s", page)
	}
	w := browse(s, http.MethodPost, "/board/hosts", "ops", s.OperatorToken(), url.Values{"act": {"refused"}, "host": {"www.example.jp"}})
	if w.Code != http.StatusSeeOther {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	var state string
	testkit.Must(t, s.state.db.QueryRowContext(context.Background(), `SELECT state FROM hosts WHERE name = 'www.example.jp'`).Scan(&state))
	if state != "refused" {
		t.Errorf("the host is %s", state)
	}
}

// Batches are discarded together: those that are checked, or all that match and were shown. A page
// has each batch's reason with what to do, and takes a decision back.
func TestBatchesAreDecidedTogether(t *testing.T) {
	s := newTestService(t)
	ledger, now := inbox.NewLedger(s.state.db), time.Now()
	for i, reason := range []wire.Reason{wire.ReasonBombRatio, wire.ReasonBombRatio, wire.ReasonIDReuse, wire.ReasonIDReuse, wire.ReasonIDReuse} {
		id := fmt.Sprintf("waseda-20261128T030000Z-%d", i)
		testkit.Must(t, ledger.Enter(t.Context(), &inbox.Batch{ID: id, Batch: wire.BatchID(id), Robot: "waseda", State: wire.StateQuarantined, Reason: reason, Received: now, Entered: now}))
	}
	decisions := func() (all string) {
		for i := range 5 {
			b, err := ledger.Get(t.Context(), fmt.Sprintf("waseda-20261128T030000Z-%d", i))
			testkit.Must(t, err)
			all += " " + string(b.Decision)
		}
		return all
	}
	post := func(status int, form url.Values, want string) {
		t.Helper()
		if w := browse(s, http.MethodPost, "/board/batches", "ops", s.OperatorToken(), form); w.Code != status || decisions() != want {
			t.Errorf("%v: %d %s, decisions%s", form, w.Code, w.Body, decisions())
		}
	}
	one, two := "waseda-20261128T030000Z-0", "waseda-20261128T030000Z-1"
	post(409, url.Values{"act": {"discard"}, "match": {"true"}, "most": {"2"}, "reason": {"id_reuse"}}, "     ")
	post(303, url.Values{"act": {"discard"}, "match": {"true"}, "most": {"3"}, "reason": {"id_reuse"}}, "   discarded discarded discarded")
	post(303, url.Values{"act": {"discard"}, "batch": {one, two}}, " discarded discarded discarded discarded discarded")
	post(303, url.Values{"undo": {two}}, " discarded  discarded discarded discarded")
	post(409, url.Values{"act": {"discard"}, "batch": {one, two}}, " discarded discarded discarded discarded discarded")
	post(400, url.Values{"batch": {two}}, " discarded discarded discarded discarded discarded")
	page := browse(s, http.MethodGet, "/board/batches?state=quarantined&reason=bomb_ratio", "ops", s.OperatorToken(), nil).Body.String()
	if !strings.Contains(page, `name="undo" value="`+two+`"`) || strings.Contains(page, "id_reuse</b>") || !strings.Contains(page, "If it is an import that you trust") {
		t.Error(page)
	}
}

// Every list of the board is paged: its pages together have each line once, and no more than a
// hundred at a time.
func TestBoardListsArePaged(t *testing.T) {
	s := newTestService(t)
	const lines = 250
	batches, now := inbox.NewLedger(s.state.db), time.Now()
	moved := transfers.New(s.state.db)
	var all []transfers.Transfer
	err := db.Transact(t.Context(), s.state.db, nil, func(tx *sql.Tx) error {
		for i := range lines {
			name := fmt.Sprintf("line%03d", i)
			if _, err := tx.ExecContext(t.Context(), `INSERT INTO hosts (name, state, source, created, grp) VALUES (?, 'pending', 'waseda', 0, ?)`, name, name); err != nil {
				return err
			}
			if _, err := tx.ExecContext(t.Context(), `INSERT INTO robots (name, created) VALUES (?, 0)`, name); err != nil {
				return err
			}
			if _, err := tx.ExecContext(t.Context(), `INSERT INTO watches (id, account, kind, host, url, address, body, media, email, every, confirm, webhook, secret, created, mail_stopped, hook_stopped)
				VALUES (?, ?, 'host', 'h', 'u', '', '', '', '', '', '', '', '', 0, 'no such mailbox', '')`, fmt.Sprint("w", i), name); err != nil {
				return err
			}
			all = append(all, transfers.Transfer{Who: name, Direction: transfers.Upload, Protocol: "http", Name: "x", Bytes: 1, At: now.Add(-time.Minute), Took: time.Second, Outcome: transfers.OK})
		}
		return nil
	})
	testkit.Must(t, err)
	testkit.Must(t, moved.RecordAll(t.Context(), all))
	for i := range lines {
		name := fmt.Sprintf("line%03d", i)
		testkit.Must(t, batches.Enter(t.Context(), &inbox.Batch{ID: name, Batch: wire.BatchID(name), Robot: "waseda", State: wire.StateQuarantined, Received: now, Entered: now}))
	}
	drawn := regexp.MustCompile(`(?s)<figure.*?</figure>`) // has the largest on each page
	line, next := regexp.MustCompile(`line\d{3}`), regexp.MustCompile(`<a href="([^"]+)" rel="next">`)
	for _, path := range []string{"/board/hosts", "/board/robots", "/board/batches?state=quarantined", "/board/watches", "/board/transfers?by=day"} {
		seen, pages := make(map[string]bool), 0
		for at := path; at != ""; pages++ {
			w := browse(s, http.MethodGet, at, "ops", s.OperatorToken(), nil)
			here := make(map[string]bool)
			for _, name := range line.FindAllString(drawn.ReplaceAllString(w.Body.String(), ""), -1) {
				here[name] = true
			}
			for name := range here {
				if seen[name] && !strings.Contains(at, name) { // the path names the line before
					t.Errorf("%s: %s is on two pages", at, name)
				}
				seen[name] = true
			}
			m := next.FindStringSubmatch(w.Body.String())
			if at = ""; m != nil {
				at = html.UnescapeString(m[1])
			}
			if w.Code != 200 || len(here) > 102 || pages > 5 {
				t.Fatalf("%s: %d, %d lines on page %d", path, w.Code, len(here), pages)
			}
		}
		if len(seen) != lines || pages != 3 {
			t.Errorf("%s: %d lines on %d pages, want %d on 3", path, len(seen), pages, lines)
		}
	}
	if size := browse(s, http.MethodGet, "/board/", "ops", s.OperatorToken(), nil).Body.Len(); size > 100_000 {
		t.Errorf("the first page has %d bytes", size)
	}
}

// Robots are paused and let go on, and roll-outs are stopped, by forms.
func TestOrdersOnTheBoard(t *testing.T) {
	s := newTestService(t)
	_, err := s.state.db.ExecContext(t.Context(), `INSERT INTO robots (name, created, joined, seen, subscribed, secret_hash) VALUES ('waseda', 1, 1, 1, 1, x'00')`)
	testkit.Must(t, err)
	post := func(path string, form url.Values) int {
		return browse(s, http.MethodPost, path, "ops", s.OperatorToken(), form).Code
	}
	for act, says := range map[string]string{"pause": "Let it go on", "resume": "Pause", "restart": "fetch its list again", "upgrade": "look for its release"} {
		if code := post("/board/robots/waseda", url.Values{"act": {act}}); code != 303 {
			t.Errorf("%s: %d", act, code)
		}
		if page := browse(s, http.MethodGet, "/board/robots/waseda", "ops", s.OperatorToken(), nil).Body.String(); !strings.Contains(page, says) {
			t.Errorf("after %s: %s", act, page)
		}
	}
	_, err = s.state.db.ExecContext(t.Context(), `UPDATE robots SET refused = '1,000 <uploads>', refused_since = ?, refused_at = ?`, db.Millis(time.Now()), db.Millis(time.Now()))
	testkit.Must(t, err)
	for _, path := range []string{"/board/robots", "/board/robots/waseda"} {
		if page := browse(s, http.MethodGet, path, "ops", s.OperatorToken(), nil).Body.String(); !strings.Contains(page, "1,000 &lt;uploads&gt;") {
			t.Errorf("%s does not say that the robot is turned away: %s", path, page)
		}
	}
	for _, c := range []struct {
		path string
		form url.Values
		want int
	}{
		{"/board/robots/waseda", url.Values{"act": {"burn"}}, 400},
		{"/board/robots/nobody", url.Values{"act": {"pause"}}, 404},
		{"/board/releases", url.Values{"act": {"stop"}, "counter": {"7"}, "percent": {"10"}}, 404},
		{"/board/releases", url.Values{"act": {"stop"}, "counter": {"7"}, "percent": {"101"}}, 400},
		{"/board/releases", url.Values{"act": {"stop"}, "counter": {"x"}, "percent": {"10"}}, 400},
	} {
		if code := post(c.path, c.form); code != c.want {
			t.Errorf("%s %v: %d, want %d", c.path, c.form, code, c.want)
		}
	}
	for _, path := range []string{"/board/robots/nobody", "/board/batches/nothing"} {
		if code := browse(s, http.MethodGet, path, "ops", s.OperatorToken(), nil).Code; code != 404 {
			t.Errorf("%s: %d", path, code)
		}
	}
}
