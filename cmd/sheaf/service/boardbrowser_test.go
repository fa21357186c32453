package service

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sheaf/ingest/inbox"
	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
	"sheaf/internal/wire"
)

// fillBoard gives the board something to show on every page. It writes to the tables what robots,
// consumers and operators would bring, and any of it may be bad.
func fillBoard(t *testing.T, s *Service, bad string) {
	t.Helper()
	now := time.Now()
	ms := now.UnixMilli()
	for _, insert := range []struct {
		text string
		args []any
	}{
		{`INSERT INTO robots (name, created, joined, seen, subscribed, secret_hash, version) VALUES (?, 1, 1, ?, 1, x'00', ?)`, []any{"robot" + bad, ms, bad}},
		{`INSERT INTO robots (name, created, joined, seen, subscribed, secret_hash) VALUES ('silent', 1, 1, 1, 1, x'01')`, nil},
		{`INSERT INTO heartbeats (robot, at, phase, generation, cycle, left_urls, rate, pages, bytes, ms, spool) VALUES (?, ?, ?, 1, 1, 100, 1.5, 7, 70, 1, 700)`, []any{"robot" + bad, ms, "collecting" + bad}},
		{`INSERT INTO hosts (name, state, source, created, grp) VALUES (?, 'pending', ?, ?, 'g')`, []any{"www.example.jp" + bad, "robot" + bad, ms}},
		{`INSERT INTO copy_verdicts (host, robot, judged, compared, differing, odd, example) VALUES (?, ?, ?, 10, 9, 1, ?)`, []any{"h" + bad, "robot" + bad, ms, "http://h/" + bad}},
		{`INSERT INTO watches (id, account, kind, host, url, address, body, media, email, every, confirm, webhook, secret, created, mail_stopped, hook_stopped)
			VALUES ('w1', ?, 'host', ?, 'u', '', '', '', '', '', '', '', '', 0, ?, '')`, []any{"reader" + bad, "host" + bad, "550 no such mailbox" + bad}},
		{`INSERT INTO removals (id, secret, wish, kind, target, site, email, reason, lang, network, created, state, proof) VALUES ('r1', ?, 'removal', 'prefix', ?, 'example.jp', ?, ?, 'en', '', ?, 'proved', ?)`,
			[]any{"s1", "http://www.example.jp/" + bad, "owner@example.jp" + bad, "it is ours" + bad, ms, "file" + bad}},
		{`INSERT INTO removals (id, secret, wish, kind, target, site, email, reason, lang, network, created, state) VALUES ('r2', 's2', 'exclusion', 'domain', 'example.org', 'example.org', 'owner@example.org', '', 'ja', '', ?, 'open')`, []any{ms}},
		{`INSERT INTO removals (id, secret, wish, kind, target, site, email, reason, lang, network, created, state, proof, answer, decided) VALUES ('r3', 's3', 'removal', 'host', 'old.example.org', 'example.org', 'owner@example.org', '', 'ja', '', ?, 'granted', 'mail', 'as you wish', ?)`, []any{ms, ms}},
		{`INSERT INTO removal_events (removal, n, at, by_whom, act, note) VALUES ('r1', 1, ?, 'asker', 'asked', ?)`, []any{ms, bad}},
		{`INSERT INTO audit (at, kind, name, address, act, object, outcome, reason, request) VALUES (?, 'operator', ?, '192.0.2.1', 'takedown', ?, 'failed', ?, '')`, []any{ms, "sato" + bad, "host www.example.jp" + bad, "letter of 21 November" + bad}},
	} {
		_, err := s.state.db.ExecContext(t.Context(), insert.text, insert.args...)
		testkit.Must(t, err)
	}
	testkit.Must(t, inbox.NewLedger(s.state.db).Enter(t.Context(), &inbox.Batch{ID: "b1" + bad, Batch: wire.BatchID("b1" + bad), Robot: "robot" + bad, Protocol: "http",
		State: wire.StateQuarantined, Reason: wire.Reason("digest" + bad), Detail: "segment 3" + bad, Received: now, Entered: now, Size: 1 << 20, Hosts: 3}))
	testkit.Must(t, transfers.New(s.state.db).RecordAll(t.Context(), []transfers.Transfer{
		{Who: "robot" + bad, Direction: transfers.Upload, Protocol: "http", Name: "b1" + bad, Bytes: 1 << 20, At: now.Add(-time.Minute), Took: time.Second, Outcome: transfers.OK},
		{Who: "reader" + bad, Direction: transfers.Download, Protocol: "ftp", Name: "/jp" + bad, Bytes: 1 << 24, At: now.Add(-time.Minute), Took: time.Second, Outcome: transfers.OK},
	}))
}

// fillHistory gives the board six days of transfers by five robots and two readers. On the fourth
// day nothing came.
func fillHistory(t *testing.T, s *Service) {
	t.Helper()
	var all []transfers.Transfer
	begin := time.Now().Truncate(time.Hour).Add(-6 * 24 * time.Hour)
	for h := range 6 * 24 {
		for i, robot := range []string{"chiba", "etl", "jaist", "keio", "waseda"} {
			if h/24 == 3 || h%24 < 8 && i != 2 {
				continue
			}
			size := int64(1+(h*7+i*13)%19) << 20
			all = append(all, transfers.Transfer{Who: robot, Direction: transfers.Upload, Protocol: "http", Name: "b", Bytes: size, At: begin.Add(time.Duration(h) * time.Hour),
				Took: time.Duration(size/(300_000+int64(i)*90_000)) * time.Second, Outcome: transfers.OK})
		}
		if h%3 == 0 {
			all = append(all, transfers.Transfer{Who: []string{"library", "ndl"}[h%2], Direction: transfers.Download, Protocol: "http", Name: "/jp", Bytes: int64(h%11) << 22, At: begin.Add(time.Duration(h) * time.Hour), Took: 9 * time.Second, Outcome: transfers.OK})
		}
	}
	testkit.Must(t, transfers.New(s.state.db).RecordAll(t.Context(), all))
}

// boardPages are all pages of the board.
var boardPages = map[string]string{
	"board": "/board/", "batches": "/board/batches", "quarantine": "/board/batches?state=quarantined", "robots": "/board/robots", "hosts": "/board/hosts",
	"accepted": "/board/hosts?state=accepted", "levelling": "/board/levelling", "releases": "/board/releases", "store": "/board/store", "failing": "/board/watches",
	"removals": "/board/removals", "audit": "/board/audit", "rates": "/board/transfers", "months": "/board/transfers?by=month", "silent": "/board/robots/silent",
	"accounts": "/board/accounts", "account": "/board/accounts/reader", "access": "/board/access", "takedowns": "/board/takedowns", "collections": "/board/collections", "operators": "/board/operators",
}

// The operators' pages are accessible.
func TestBoardIsAccessible(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	s := newTestService(t)
	fillBoard(t, s, "")
	fillHistory(t, s)
	fillReaders(t, s, "")
	server := httptest.NewServer(s.router)
	defer server.Close()
	ctx := testkit.NewPage(t)
	testkit.Must(t, chromedp.Run(ctx, network.SetExtraHTTPHeaders(network.Headers{"Authorization": "Bearer " + s.OperatorToken()})))
	pages := []testkit.Page{{Name: "robot", Path: "/board/robots/robot"}, {Name: "batch", Path: "/board/batches/b1"}, {Name: "host", Path: "/board/hosts/www.example.jp"}, {Name: "grouped", Path: "/board/hosts?grouped=true"}}
	for name, path := range boardPages {
		pages = append(pages, testkit.Page{Name: name, Path: path})
	}
	testkit.Look(t, ctx, server.URL, pages)
}

// A chart tells a column's amounts where the pointer is over it, at any height, and where the focus
// is: Tab reaches the chart once, arrows go from column to column, Escape leaves.
func TestChartsAnswer(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s, ctx := newTestService(t), testkit.NewPage(t)
	fillHistory(t, s)
	server := httptest.NewServer(s.router)
	defer server.Close()
	const shown = `[...document.querySelectorAll(".hits p")].filter(p => getComputedStyle(p).display !== "none").map(p => p.innerText).join("|")`
	const columns = `[...document.querySelectorAll(".hits")[0].querySelectorAll("div")]`
	var over []float64
	var names []string
	var none, hovered, focused, left string
	testkit.Must(t, chromedp.Run(ctx, network.SetExtraHTTPHeaders(network.Headers{"Authorization": "Bearer " + s.OperatorToken()}),
		chromedp.EmulateViewport(1280, 900), chromedp.Navigate(server.URL+"/board/transfers?by=day"), chromedp.Evaluate(shown, &none),
		chromedp.Evaluate(columns+`.map(c => c.querySelector("b").textContent)`, &names),
		chromedp.Evaluate(`(c => { c.scrollIntoView({block: "center"}); const r = c.getBoundingClientRect(); return [r.x + r.width / 2, r.y + 2] })(`+columns+`[5])`, &over)))
	testkit.Must(t, chromedp.Run(ctx, chromedp.MouseEvent("mouseMoved", over[0], over[1]), chromedp.Evaluate(shown, &hovered),
		chromedp.MouseEvent("mouseMoved", 1, 1), chromedp.Focus(`.hits > [tabindex="0"]`), chromedp.KeyEvent(kb.End), chromedp.KeyEvent(kb.ArrowLeft), chromedp.Evaluate(shown, &focused),
		chromedp.KeyEvent(kb.Escape), chromedp.Evaluate(shown, &left)))
	if n := len(names); none != "" || !strings.HasPrefix(hovered, names[5]) || !strings.HasPrefix(focused, names[n-2]) || !strings.Contains(focused, "waseda") || left != "" {
		t.Errorf("before %q, under the pointer %q, with the focus %q, after it %q", none, hovered, focused, left)
	}
}

// A page that is open shows a batch that came meanwhile, without being loaded again.
func TestOpenBoardFollows(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s, ctx := newTestService(t), testkit.NewPage(t)
	server := httptest.NewServer(s.router)
	defer server.Close()
	defer server.CloseClientConnections()
	const quarantined = `document.querySelector('#live-buffers a[href$="quarantined"]').parentElement.querySelector("b").innerText`
	var before string
	testkit.Must(t, chromedp.Run(ctx, network.SetExtraHTTPHeaders(network.Headers{"Authorization": "Bearer " + s.OperatorToken()}),
		chromedp.Navigate(server.URL+"/board/"), chromedp.Evaluate(quarantined, &before)))
	fillBoard(t, s, "")
	testkit.Must(t, chromedp.Run(ctx, chromedp.Poll(quarantined+` === "1"`, nil, chromedp.WithPollingTimeout(testkit.Patience))))
	if before != "0" {
		t.Errorf("before it were %s", before)
	}
}
