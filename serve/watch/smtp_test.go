package watch_test

import (
	"context"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/encoding/japanese"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/serve/servetest"
	"sheaf/serve/watch"
	"sheaf/test/mailtest"
)

// mailed is a bench whose watch of a page tells by mail, with a change that is due.
func mailed(t *testing.T, s *mailtest.Server) (*bench, *watch.Watch) {
	b := newBench(t, func(o *watch.Options) { o.Mail = s.Server })
	b.look()
	w := b.add(watch.Wish{URL: page, Email: "reader@example.jp", Webhook: b.hook})
	b.changes(1)
	return b, w
}

// changes publishes another version of the page.
func (b *bench) changes(n int) {
	b.t.Helper()
	b.Publish(b.day(n).Format("20060102"), map[string][]*archive.Record{"www.waseda.ac.jp": {servetest.Page(page, fmt.Sprint("version ", b.day(n)), b.day(n))}})
	b.look()
}

// failing gives what the account's list says of a watch.
func (b *bench) failing(id string) (*watch.Watch, watch.Failing) {
	b.t.Helper()
	list, err := b.List(b.t.Context(), "jp")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, w := range list {
		if w.ID != id {
			continue
		}
		for _, f := range w.Failing {
			if f.By == "mail" {
				return w, f
			}
		}
		return w, watch.Failing{}
	}
	b.t.Fatalf("no watch %s", id)
	return nil, watch.Failing{}
}

// TestMailServerHangs: whatever it does not answer, it is left after the patience; what others wait
// for goes out meanwhile, and the mail comes later.
func TestMailServerHangs(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"greeting", "EHLO", "RCPT", "DATA", "message", "QUIT"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			s := mailtest.New(t)
			s.Patience = testkit.Slower * 500 * time.Millisecond
			s.Set(func(verb, _ string) string { return map[bool]string{true: mailtest.Silence}[verb == at] })
			b, w := mailed(t, s)
			b.deliver()
			if len(b.calls) != 1 {
				t.Errorf("%d calls of the webhook while the mail server hung, want 1", len(b.calls))
			}
			if at == "QUIT" { // it has the letter
				b.now = b.now.Add(time.Hour)
				b.deliver()
				if _, f := b.failing(w.ID); len(s.Letters()) != 1 || f.Error != "" {
					t.Errorf("%d letters came, and the list says %+v", len(s.Letters()), f)
				}
				return
			}
			if _, f := b.failing(w.ID); f.Waiting != 1 || f.Error == "" || !f.Next.After(b.now) {
				t.Errorf("the list says %+v", f)
			}
			troubled, err := b.Troubled(t.Context(), "", 10)
			if err != nil || len(troubled) != 1 || troubled[0].ID != w.ID || len(troubled[0].Failing) != 1 || troubled[0].Failing[0].Error == "" {
				t.Errorf("operators see %+v, %v", troubled, err)
			}
			if more, err := b.Troubled(t.Context(), w.ID, 10); err != nil || len(more) != 0 {
				t.Errorf("after it operators see %+v, %v", more, err)
			}
			s.Set(nil)
			s.Patience = testkit.Patience
			b.now = b.now.Add(time.Hour)
			b.deliver()
			if _, f := b.failing(w.ID); f.Waiting+f.GivenUp != 0 {
				t.Errorf("once the server answers the list says %+v", f)
			}
			if troubled, err := b.Troubled(t.Context(), "", 10); err != nil || len(troubled) != 0 {
				t.Errorf("once the server answers operators see %+v, %v", troubled, err)
			}
		})
	}
}

// TestMailIsGivenUp: what a server refuses for now (4xx) is tried again with longer and longer
// pauses, and given up after some three days; the list says why. The watch goes on.
func TestMailIsGivenUp(t *testing.T) {
	s := mailtest.New(t)
	tries := 0
	s.Set(func(verb, _ string) string {
		if verb == "RCPT" {
			tries++
			return "451 4.7.1 greylisted, come again"
		}
		return ""
	})
	b, w := mailed(t, s)
	began := b.now
	last, pause := b.now, time.Duration(0)
	for range 200 {
		before := tries
		b.deliver()
		if tries > before {
			if now := b.now.Sub(last); now < pause {
				t.Errorf("it was tried again after %v, and before that after %v", now, pause)
			} else {
				last, pause = b.now, now
			}
		}
		_, f := b.failing(w.ID)
		if f.GivenUp > 0 {
			break
		}
		if f.Waiting != 1 || !strings.Contains(f.Error, "greylisted") {
			t.Fatalf("after %v the list says %+v", b.now.Sub(began), f)
		}
		b.now = f.Next
	}
	got, f := b.failing(w.ID)
	if took := b.now.Sub(began); f.GivenUp != 1 || !strings.Contains(f.Error, "greylisted") || took < 48*time.Hour || took > 4*24*time.Hour || tries < 10 || tries > 20 {
		t.Errorf("after %v and %d tries the list says %+v", took, tries, f)
	}
	if got.MailStopped != "" {
		t.Errorf("the watch's mails were stopped: %s", got.MailStopped)
	}
	s.Set(nil)
	b.changes(2)
	b.deliver()
	if len(s.Letters()) != 1 {
		t.Errorf("%d letters came of the next change, want 1", len(s.Letters()))
	}
}

// TestMailIsStopped: what a server refuses for good (5xx) at the address or the letter ends the
// mails of the watch, and the list says why; its webhook goes on. What it refuses of the service
// itself, its login or sender, is tried again.
func TestMailIsStopped(t *testing.T) {
	for at, says := range map[string]string{"RCPT": "550 5.1.1 no such mailbox", "message": "554 5.7.1 we take no such letters", "DATA": "552 5.2.2 mailbox full"} {
		t.Run(at, func(t *testing.T) {
			s := mailtest.New(t)
			s.Set(func(verb, _ string) string { return map[bool]string{true: says}[verb == at] })
			b, w := mailed(t, s)
			b.deliver()
			got, f := b.failing(w.ID)
			if f.GivenUp != 1 || f.Waiting != 0 || !strings.Contains(got.MailStopped, says[4:]) {
				t.Fatalf("the list says %+v, stopped because %q", f, got.MailStopped)
			}
			sent := len(s.Lines())
			b.changes(2)
			b.deliver()
			b.now = b.now.Add(24 * time.Hour)
			b.deliver()
			if len(s.Lines()) != sent {
				t.Errorf("the server was asked again: %q", s.Lines()[sent:])
			}
			if len(b.calls) != 2 {
				t.Errorf("%d calls of the webhook, want 2", len(b.calls))
			}
		})
	}
	s := mailtest.New(t)
	s.Set(func(verb, _ string) string {
		return map[bool]string{true: "553 5.7.1 not your address"}[verb == "MAIL"]
	})
	b, w := mailed(t, s)
	b.deliver()
	if got, f := b.failing(w.ID); f.Waiting != 1 || got.MailStopped != "" {
		t.Errorf("the sender was refused, and the list says %+v, stopped because %q", f, got.MailStopped)
	}
}

// TestNothingIsInjected: no address and no text of a consumer's becomes a line of the dialogue, or
// of the letter's header.
func TestNothingIsInjected(t *testing.T) {
	s := mailtest.New(t)
	b := newBench(t, func(o *watch.Options) { o.Mail, o.Unconfirmed = s.Server, false })
	b.look()
	for _, email := range []string{
		"a@example.jp\r\nRCPT TO:<b@example.jp>", "a@example.jp\nBcc: b@example.jp", "a@example.jp, b@example.jp", "<a@example.jp>", "a@example.jp>\r\nDATA",
		"\"a\r\nb\"@example.jp", "a b@example.jp", "a@example.jp (b)", "@example.jp", "a@", "a@exa mple.jp", "a@example.jp\x00", strings.Repeat("a", 300) + "@example.jp",
	} {
		if _, err := b.Add(t.Context(), b.jp, watch.Wish{URL: page, Email: email}); err == nil {
			t.Errorf("%q is taken for an address", email)
		}
	}
	b.add(watch.Wish{URL: page + "search", Body: "q=1\r\nBcc: b@example.jp\r\n.\r\nMAIL FROM:<c@example.jp>\r\n", Email: "reader@example.jp"})
	b.deliver()
	if len(s.Letters()) != 1 {
		t.Fatalf("%d letters, want the one that asks to confirm", len(s.Letters()))
	}
	head, _, _ := strings.Cut(s.Letters()[0], "\r\n\r\n")
	for _, line := range strings.Split(head, "\r\n") {
		if name, _, _ := strings.Cut(line, ":"); strings.EqualFold(name, "Bcc") {
			t.Errorf("the header has %q", line)
		}
	}
	for _, line := range s.Lines() {
		if strings.Contains(line, "b@example.jp") || strings.Contains(line, "c@example.jp") {
			t.Errorf("the server was told %q", line)
		}
	}
}

// TestJapaneseMail: a page's title, in whatever encoding, is the subject; the letter is UTF-8, and
// links to the page as it was and to what is different.
func TestJapaneseMail(t *testing.T) {
	s := mailtest.New(t)
	b := newBench(t, func(o *watch.Options) { o.Mail = s.Server })
	b.look()
	b.add(watch.Wish{URL: page, Email: "reader@example.jp"})
	for n, words := range []string{"休館", "開館"} {
		body, err := japanese.ShiftJIS.NewEncoder().String("<html><head><meta charset=Shift_JIS><title>早稲田大学　図書館だより ― 新着のお知らせ</title></head><body>本日" + words + "</body></html>")
		if err != nil {
			t.Fatal(err)
		}
		b.Publish(b.day(n+1).Format("20060102"), map[string][]*archive.Record{"www.waseda.ac.jp": {servetest.Page(page, body, b.day(n+1))}})
		b.look()
		b.deliver()
	}
	if len(s.Letters()) != 2 {
		t.Fatalf("%d letters", len(s.Letters()))
	}
	m, err := mail.ReadMessage(strings.NewReader(s.Letters()[1]))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil || !strings.HasPrefix(subject, "changed: 早稲田大学 図書館だより") || !strings.HasSuffix(subject, "新着のお知らせ") {
		t.Errorf("subject %q, %v", subject, err)
	}
	for _, line := range strings.Split(strings.SplitN(s.Letters()[1], "\r\n\r\n", 2)[0], "\r\n") {
		if len(line) > 998 || strings.ContainsFunc(line, func(c rune) bool { return c > '~' }) {
			t.Errorf("the header has %q", line)
		}
	}
	if kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type")); kind != "text/plain" || !strings.EqualFold(params["charset"], "utf-8") || err != nil {
		t.Errorf("%s %v %v", kind, params, err)
	}
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"早稲田大学 図書館だより", base + "/web/20261122103000/" + page, base + "/diff/20261121103000/20261122103000/" + page} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the letter lacks %q:\n%s", want, text)
		}
	}
}

// TestSlowWebhooksHoldUpNobody: calls that hang are bounded, and others are made meanwhile.
func TestSlowWebhooksHoldUpNobody(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go io.Copy(io.Discard, conn)
		}
	}()
	b := newBench(t, nil)
	b.look()
	for range 3 {
		b.add(watch.Wish{URL: page, Webhook: "http://" + l.Addr().String()})
	}
	b.add(watch.Wish{URL: page, Webhook: b.hook})
	b.changes(1)
	done := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer close(done)
		_ = watch.DeliverAll(ctx, b.Watches) // it is cut short
	}()
	testkit.Until(t, "a webhook is called while others hang", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.calls) == 1
	})
	stop()
	<-done
}
