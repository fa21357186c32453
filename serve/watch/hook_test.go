package watch_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/serve/servetest"
	"sheaf/serve/watch"
)

// closed returns a second Watches on the bench's database that calls public addresses only.
func (b *bench) closed() *watch.Watches {
	b.t.Helper()
	w, err := watch.New(watch.Options{
		DB: b.DB, Records: b.Library.Records, Account: b.Accounts.Find, Base: base, Unconfirmed: true,
		Now: func() time.Time { return b.now },
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return w
}

// TestPrivateWebhook: without leave of the operator no machine of the house is called, whatever its
// name leads to, and the consumer is not told where it leads.
func TestPrivateWebhook(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.look()
	w := b.add(watch.Wish{URL: page, Webhook: b.hook})
	b.changes(1)
	if err := watch.DeliverAll(t.Context(), b.closed()); err != nil {
		t.Fatal(err)
	}
	if len(b.calls) != 0 {
		t.Error("a loopback address was called")
	}
	got, err := b.Get(t.Context(), "jp", w.ID)
	if err != nil || !strings.Contains(got.HookStopped, "not public") || strings.Contains(got.HookStopped, "127.0.0.1") {
		t.Errorf("the consumer is told %q, %v", got.HookStopped, err)
	}
}

// A name that led to a public address when the watch was made may lead elsewhere when it is called.
// What counts is the address of the connection.
func TestReboundWebhook(t *testing.T) {
	for address, ok := range map[string]bool{
		"8.8.8.8:80": true, "[2606:4700::1111]:443": true,
		"127.0.0.1:80": false, "10.0.0.1:80": false, "169.254.169.254:80": false, "0.0.0.0:80": false, "[::1]:80": false, "[fe80::1%eth0]:80": false,
		"[::ffff:127.0.0.1]:80": false, "[64:ff9b::a00:1]:80": false, "hook.example.jp:80": false, "": false,
	} {
		if err := watch.PublicOnly("tcp", address, nil); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// TestLiteralWebhooks: a webhook that names an address of the house is refused when the watch is
// made.
func TestLiteralWebhooks(t *testing.T) {
	t.Parallel()
	closed := newBench(t, nil)
	s := closed.closed()
	for hook, ok := range map[string]bool{
		"http://127.0.0.1/": false, "http://127.1:8080/": false, "http://2130706433/": false, "http://0x7f000001/": false, "http://0x7f.1/": false,
		"http://0177.0.0.1/": false, "http://127.0.0.1./": false, "http://[::1]/": false, "http://[::ffff:127.0.0.1]/": false, "http://[64:ff9b::7f00:1]/": false,
		"http://[2002:7f00:1::]/": false, "http://10.0.0.1/": false, "http://169.254.169.254/latest/meta-data/": false, "http://0/": false,
		"http://%31%32%37.0.0.1/": false, "http://１２７.0.0.1/": false, "http://localhost:9/": false, "http://a.LOCALHOST/": false,
		"http://8.8.8.8/": true, "https://[2606:4700::1111]/x": true, "https://hook.example.jp/sheaf": true, "https://localhost.example.jp/": true,
	} {
		_, err := s.Add(t.Context(), closed.jp, watch.Wish{URL: page, Webhook: hook})
		if ok && err != nil || !ok && !errors.Is(err, watch.ErrWish) {
			t.Errorf("%s: %v", hook, err)
		}
	}
}

// TestWebhookAnswersStaySecret: of what a webhook answers its consumer sees the status, and nothing
// that the machine there chose to write.
func TestWebhookAnswersStaySecret(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer string
		says   string
	}{
		"a status": {"HTTP/1.1 500 my-secret\r\nContent-Length: 9\r\n\r\nmy-secret", "status 500 Internal Server Error"},
		"gone":     {"HTTP/1.1 410 my-secret\r\nContent-Length: 9\r\n\r\nmy-secret", "status 410 Gone"},
		"no HTTP":  {"SSH-2.0-my-secret\r\n\r\n", "no HTTP answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := w.(http.Hijacker).Hijack()
				if err == nil {
					_, _ = conn.Write([]byte(c.answer))
					conn.Close()
				}
			}))
			t.Cleanup(server.Close)
			b := newBench(t, nil)
			b.look()
			w := b.add(watch.Wish{URL: page, Webhook: server.URL})
			b.changes(1)
			b.deliver()
			got, err := b.Get(t.Context(), "jp", w.ID)
			if err != nil || len(got.Failing) != 1 {
				t.Fatalf("%+v, %v", got, err)
			}
			said := got.Failing[0].Error
			if all := said + got.HookStopped; !strings.HasPrefix(said, c.says) || strings.Contains(all, "secret") || strings.Contains(all, "127.0.0.1") {
				t.Errorf("the consumer is told %q, %q; want %q", said, got.HookStopped, c.says)
			}
		})
	}
}

// What was found, or failed, while the clock was a year ahead is told once the clock is right.
func TestWebhookOfAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	for _, failed := range []bool{false, true} {
		b := newBench(t, nil)
		right := b.now
		b.now = right.AddDate(1, 0, 0)
		b.look()
		b.add(watch.Wish{URL: page, Webhook: b.hook})
		b.changes(1)
		if failed {
			b.fail = 1
			b.deliver()
		}
		before := len(b.calls)
		b.now = right.Add(time.Hour)
		b.deliver()
		if n := len(b.calls) - before; n != 1 {
			t.Errorf("failed before: %v; %d calls", failed, n)
		}
	}
}

// TestFailingWebhookIsAskedRarely: however many changes wait for a webhook that fails, it gets one
// call, then ever fewer; when it answers again all come, and what has waited for three days is
// given up.
func TestFailingWebhookIsAskedRarely(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const many = 30
	b := newBench(t, nil)
	b.look()
	b.add(watch.Wish{Host: "www.waseda.ac.jp", Webhook: b.hook})
	b.add(watch.Wish{URL: page + "0", Webhook: b.hook}) // of the same account: it is the URL that fails
	change := func(from, to int) {
		var records []*archive.Record
		for i := from; i < to; i++ {
			records = append(records, servetest.Page(page+string(rune('0'+i)), "x", b.now))
		}
		b.Publish(b.now.Format("20060102"), map[string][]*archive.Record{"www.waseda.ac.jp": records})
		b.look()
	}
	change(0, many)
	b.fail = 1 << 30
	b.deliver()
	first := len(b.calls)
	if first > 8 { // those that were under way when the first failed
		t.Errorf("%d calls at once of a webhook that fails", first)
	}
	at := b.now
	for b.now.Before(at.Add(24 * time.Hour)) {
		b.now = b.now.Add(30 * time.Second)
		if b.now.Sub(at) > time.Hour {
			b.now = b.now.Add(20 * time.Minute)
		}
		b.deliver()
	}
	if n := len(b.calls) - first; n < 8 || n > 13 {
		t.Errorf("%d further calls in a day, want some ten", n)
	}
	b.fail = 0
	b.now = b.now.Add(8 * time.Hour)
	b.deliver()
	b.now = b.now.Add(8 * time.Hour) // those that failed themselves
	b.deliver()
	told := make(map[string]bool)
	for _, c := range b.calls[first:] {
		told[c.header.Get("webhook-id")] = true
	}
	if len(told) != many+1 {
		t.Errorf("%d of %d notices came once the webhook answered", len(told), many+1)
	}
	b.fail = 1 << 30
	change(many, many+2)
	b.deliver()
	for range 20 {
		b.now = b.now.Add(8 * time.Hour)
		b.deliver()
	}
	before := len(b.calls)
	b.now = b.now.Add(8 * time.Hour)
	b.deliver()
	if len(b.calls) != before {
		t.Error("what has waited for a week is tried still")
	}
}

// TestDeliveryOfARemovedWatch: a notice that was written while its watch was being removed is given
// up. It is not looked at for ever, and holds up no other.
func TestDeliveryOfARemovedWatch(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.look()
	w := b.add(watch.Wish{URL: page, Webhook: b.hook})
	b.changes(1)
	if _, err := b.DB.ExecContext(t.Context(), `DELETE FROM watches WHERE id = ?`, w.ID); err != nil {
		t.Fatal(err)
	}
	b.deliver()
	var state string
	if err := b.DB.QueryRowContext(t.Context(), `SELECT state FROM watch_deliveries WHERE watch = ?`, w.ID).Scan(&state); err != nil || state != "dead" {
		t.Errorf("the delivery is %q, %v; want dead", state, err)
	}
}
