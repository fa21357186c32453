package crash

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/watch"
	"sheaf/test/batchtest"
	"sheaf/test/mailtest"
)

// TestWatchAtTwoNodes: two processes that serve, and one that manages and ingests, share a
// PostgreSQL database and a store over S3. The two are killed and started again while pages change.
// Each change is told once by mail and once by webhook. If a process is killed during a call, the
// other one calls again with the same name.
func TestWatchAtTwoNodes(t *testing.T) {
	notShort(t)
	t.Parallel()
	told := newListener(t)
	settings := s3Settings(t)
	settings["watch.private_webhooks"], settings["watch.confirmed"] = true, true
	settings["watch.mail.server"], settings["watch.mail.from"], settings["watch.mail.tls"] = told.post.Address, "archive@example.jp", "none"
	database := dbtest.Postgres(t)
	offline := []time.Duration{time.Minute, time.Minute}
	s := newSplit(t, testkit.Build(t, "sheaf/cmd/sheaf"), database, offline, settings)
	r := s.join("waseda")
	s.add(r.Name, 2)
	s.fetchList(r)
	spool := newSpool(t)
	host := r.hosts[0]
	changes := 0
	var captured time.Time // when the last batch's pages were captured
	// bring publishes a batch in which that many pages are new or changed.
	bring := func(pages int) {
		t.Helper()
		captured = captured.Add(time.Second) // links tell versions apart by the second
		changes += pages
		n := int64(changes)
		b := batchtest.Make(t, r.Robots, n, batchtest.Host{Name: host, Start: captured, Each: func(yield func(batchtest.Page) bool) {
			for i := range pages {
				if !yield(batchtest.Page{Path: fmt.Sprintf("/%d.html", i), Body: fmt.Appendf(nil, "<title>x</title>as of batch %d", n)}) {
					return
				}
			}
		}})
		testkit.Must(t, spool.add(&madeBatch{Batch: b}))
		testkit.Must(t, s.uploader(r, spool, byHTTP).Drain(t.Context()))
	}
	testkit.Must(t, s.nodes[0].operate(http.MethodPost, api.PathAdminAccounts, account.NewAccount{Account: account.Account{Name: "c1", Domains: []string{"*"}}, Password: "c1's"}, nil))
	wish, err := json.Marshal(watch.Wish{Host: host, Email: "reader@example.jp", Webhook: told.hook.URL})
	testkit.Must(t, err)
	testkit.Eventually(t, "the watch begins", func() error { // the second node learns of the account after a moment
		req, err := http.NewRequest(http.MethodPost, s.nodes[1].url()+"/v1/watches", bytes.NewReader(wish))
		testkit.Must(t, err)
		req.SetBasicAuth("c1", "c1's")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusCreated {
			return fmt.Errorf("%s", resp.Status)
		}
		return nil
	})
	captured = time.Now() // what was captured before the watch began is no change
	expire := claimsEnd(t, database)
	wait := func(what string, done func(calls, mails map[string]int) error) {
		t.Helper()
		testkit.Eventually(t, what, func() error {
			err := done(told.count())
			if err != nil {
				expire()
			}
			return err
		})
	}
	all := func(what string) {
		t.Helper()
		wait(what, func(calls, mails map[string]int) error {
			if len(calls) != changes || len(mails) != changes {
				return fmt.Errorf("%d calls and %d mails tell of %d changes", len(calls), len(mails), changes)
			}
			return nil
		})
	}

	bring(3)
	all("both live")
	s.nodes[1].program.kill()
	bring(2)
	all("one lives")

	// The node is killed between the call and its recording; then the other one comes back.
	killed := make(chan string, 1)
	told.mu.Lock()
	told.before = func(call string) { s.nodes[0].program.kill(); killed <- call }
	told.mu.Unlock()
	bring(1)
	again := testkit.Receive(t, "the call that the kill breaks off", killed)
	s.nodes[1].program.start()
	wait("the call that the kill broke off comes again", func(calls, _ map[string]int) error {
		if calls[again] < 2 {
			return fmt.Errorf("it came %d times", calls[again])
		}
		return nil
	})
	all("one was killed while it told")
	s.nodes[0].up()
	for n := range 2 { // and at any moment
		k := n % 2
		bring(2)
		testkit.Moment(testkit.Random(t), time.Second)
		s.nodes[k].program.kill()
		bring(1)
		s.nodes[k].program.start()
	}
	all("both were killed in turn")

	const broken = 1 + 2 + 2 // changes that a process may have been working on when it was killed
	twice := 0
	calls, mails := told.count()
	for id, n := range calls {
		if twice += n - 1; n > 1 {
			t.Logf("the call %s came %d times", id, n)
		}
	}
	for page, n := range mails {
		if twice += n - 1; n > 1 {
			t.Logf("the mail about %s came %d times", page, n)
		}
	}
	if twice > 2*broken { // by two ways each
		t.Errorf("%d calls and mails came again, of %d changes that kills can have broken off", twice, broken)
	}
	t.Logf("%d changes, each told by mail and by webhook; %d came twice after 3 kills under way", changes, twice)
}

// claimsEnd returns a function to be called while a test waits for deliveries. When none has come
// for a second, it ends the claims on those that wait, which are a dead process's and would end
// after a minute and a half. In the long form it does nothing, and the test waits.
func claimsEnd(t *testing.T, database string) func() {
	t.Helper()
	if long() {
		return func() {}
	}
	db, err := sql.Open("pgx", database)
	testkit.Must(t, err)
	t.Cleanup(func() { db.Close() })
	var last string
	var since time.Time
	return func() {
		t.Helper()
		var now string
		testkit.Must(t, db.QueryRowContext(t.Context(), `SELECT coalesce(string_agg(id || ' ' || attempts || ' ' || state, ',' ORDER BY id), '') FROM watch_deliveries`).Scan(&now))
		if now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) < time.Second {
			return
		}
		_, err := db.ExecContext(t.Context(), `UPDATE watch_deliveries SET due = 0 WHERE state = 'waiting' AND attempts > 0`)
		testkit.Must(t, err)
		since = time.Now()
	}
}

// listener receives what a watch sends.
type listener struct {
	t    *testing.T
	hook *httptest.Server
	post *mailtest.Server

	mu     sync.Mutex
	calls  map[string]int  // by webhook-id
	before func(id string) // called once, before a call is answered
}

func newListener(t *testing.T) *listener {
	l := &listener{t: t, post: mailtest.New(t), calls: map[string]int{}}
	l.hook = httptest.NewServer(l)
	t.Cleanup(l.hook.Close)
	return l
}

// pageLink matches the links in a mail, without the nodes' addresses, in which they differ.
var pageLink = regexp.MustCompile(`(?m)^  page +https?://[^/]+(\S+)`)

// count returns how often each call came, by its webhook-id, and how often each mail, by the path
// of its link to the page's version.
func (l *listener) count() (calls, mails map[string]int) {
	mails = map[string]int{}
	for _, text := range l.post.Letters() {
		unfolded := strings.ReplaceAll(strings.ReplaceAll(text, "=\r\n", ""), "\r\n", "\n") // soft line breaks of quoted-printable
		for _, m := range pageLink.FindAllStringSubmatch(unfolded, -1) {
			mails[m[1]]++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.calls), mails
}

func (l *listener) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	l.mu.Lock()
	id := r.Header.Get("webhook-id")
	l.calls[id]++
	before := l.before
	l.before = nil
	l.mu.Unlock()
	if before != nil {
		before(id)
	}
}
