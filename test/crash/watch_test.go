package crash

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
	"sheaf/serve"
	"sheaf/serve/httpd"
	"sheaf/serve/watch"
	"sheaf/test/batchtest"
)

// TestWatchAtTwoNodes: two processes that serve, beside one that manages and ingests, share a PostgreSQL database and a store
// over S3. Either is killed and started again while pages change. Each change is told once by mail and once by
// webhook; one whose call is under way when its process is killed comes again from the other, under the same name.
func TestWatchAtTwoNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute or two, mostly waiting")
	}
	t.Parallel()
	told := newListener(t)
	settings := s3Settings(t)
	settings["watch.private_webhooks"], settings["watch.confirmed"] = true, true
	settings["watch.mail.server"], settings["watch.mail.from"], settings["watch.mail.tls"] = told.post, "archive@example.jp", "none"
	s := newSplit(t, build(t, "sheaf"), dbtest.Postgres(t), 25*time.Second, settings)
	r := s.join("waseda", 2)
	s.fetchList(r)
	spool := newSpool(t)
	host := r.hosts[0]
	changes := 0
	// bring publishes a batch in which so many pages are new or changed.
	bring := func(pages int) {
		t.Helper()
		time.Sleep(1100 * time.Millisecond) // links tell versions apart by the second
		changes += pages
		n := int64(changes)
		b := batchtest.Make(t, r.Robots, n, batchtest.Host{Name: host, Start: time.Now(), Each: func(yield func(batchtest.Page) bool) {
			for i := range pages {
				if !yield(batchtest.Page{Path: fmt.Sprintf("/%d.html", i), Body: fmt.Appendf(nil, "<title>x</title>as of batch %d", n)}) {
					return
				}
			}
		}})
		testkit.Must(t, spool.add(&cargo{Batch: b}))
		testkit.Must(t, s.uploader(r, spool, byHTTP).Drain(t.Context()))
	}
	testkit.Must(t, s.nodes[0].operate(http.MethodPost, httpd.PathAccounts, httpd.NewAccount{Account: serve.Account{Name: "c1", Domains: []string{"*"}}, Password: "c1's"}, nil))
	wish, err := json.Marshal(watch.Wish{Host: host, Email: "reader@example.jp", Webhook: told.hook.URL})
	testkit.Must(t, err)
	eventually(t, "the watch begins", s.nodes[1].log, func() error { // the second node learns of the account in a moment
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
	all := func(what string) {
		t.Helper()
		eventually(t, what, s.nodes[0].log, func() error {
			calls, mails := told.count()
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

	// The one that lives is killed between the call and noting it; the other comes back.
	kill := make(chan struct{})
	told.mu.Lock()
	told.before = func() { close(kill); s.nodes[0].program.kill() }
	told.mu.Unlock()
	go func() { // the batch comes through while no node is there
		<-kill
		s.nodes[1].program.start()
	}()
	bring(1)
	all("one was killed while it told")
	s.nodes[0].up()
	for n := range 2 { // and at any time
		k := n % 2
		bring(2)
		time.Sleep(time.Duration(n) * 900 * time.Millisecond)
		s.nodes[k].program.kill()
		bring(1)
		s.nodes[k].program.start()
	}
	all("both were killed in turn")

	const kills = 3
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
	if calls[told.again] < 2 {
		t.Errorf("the call that a kill broke off came %d times", calls[told.again])
	}
	if twice > 3*kills { // a kill can break off what the process has in hand: a batch's changes, by two ways
		t.Errorf("%d calls and mails came again after %d kills under way", twice, kills)
	}
	t.Logf("%d changes, each told by mail and by webhook; %d came twice after %d kills under way", changes, twice, kills)
}

// listener takes what a watch tells.
type listener struct {
	t    *testing.T
	hook *httptest.Server
	post string // address of the mail server

	mu     sync.Mutex
	calls  map[string]int // by webhook-id
	mails  map[string]int // by the link to the page's version
	before func()         // is called once, before a call is answered
	again  string         // the call that it was called at
}

func newListener(t *testing.T) *listener {
	l := &listener{t: t, calls: map[string]int{}, mails: map[string]int{}}
	l.hook = httptest.NewServer(l)
	t.Cleanup(l.hook.Close)
	post, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	t.Cleanup(func() { post.Close() })
	l.post = post.Addr().String()
	go func() {
		for {
			conn, err := post.Accept()
			if err != nil {
				return
			}
			go l.receive(conn)
		}
	}()
	return l
}

func (l *listener) count() (calls, mails map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls, mails = map[string]int{}, map[string]int{}
	for id, n := range l.calls {
		calls[id] = n
	}
	for page, n := range l.mails {
		mails[page] = n
	}
	return calls, mails
}

func (l *listener) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	l.mu.Lock()
	id := r.Header.Get("webhook-id")
	l.calls[id]++
	before := l.before
	if l.before = nil; before != nil {
		l.again = id
	}
	l.mu.Unlock()
	if before != nil {
		before()
	}
}

var pageLink = regexp.MustCompile(`(?m)^  page +(\S+)`)

// receive is a mail server that takes everything (RFC 5321).
func (l *listener) receive(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	fmt.Fprint(conn, "220 mail.example.jp\r\n")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		switch verb, _, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(line)), " "); verb {
		case "DATA":
			fmt.Fprint(conn, "354 go on\r\n")
			var text strings.Builder
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				text.WriteString(line)
			}
			unfolded := strings.ReplaceAll(strings.ReplaceAll(text.String(), "=\r\n", ""), "\r\n", "\n") // quoted-printable's soft line ends
			l.mu.Lock()
			for _, m := range pageLink.FindAllStringSubmatch(unfolded, -1) {
				l.mails[m[1]]++
			}
			l.mu.Unlock()
			fmt.Fprint(conn, "250 taken\r\n")
		case "QUIT":
			fmt.Fprint(conn, "221 bye\r\n")
			return
		default:
			fmt.Fprint(conn, "250 fine\r\n")
		}
	}
}
