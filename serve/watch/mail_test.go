package watch_test

import (
	"bufio"
	"io"
	"mime"
	"net"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"mime/quotedprintable"

	"sheaf/archive"
	"sheaf/internal/mailer"
	"sheaf/internal/testkit"
	"sheaf/serve/servetest"
	"sheaf/serve/watch"
)

// postOffice is a mail server, a process of its own.
type postOffice struct {
	t    *testing.T
	dir  string
	mail *mailer.Server
}

func newPostOffice(t *testing.T) *postOffice {
	const python = "/usr/bin/python3" // Debian's, which Debian's packages are for
	if err := exec.CommandContext(t.Context(), python, "-c", "import aiosmtpd").Run(); err != nil {
		testkit.Missing(t, "%s has no aiosmtpd (Debian: python3-aiosmtpd)", python)
	}
	dir := t.TempDir()
	address := testkit.Addresses(t, 1)[0]
	host, port, err := net.SplitHostPort(address)
	testkit.Must(t, err)
	cert, key := testkit.CertificateFiles(t, dir, host)
	mails := filepath.Join(dir, "mails")
	if err := os.Mkdir(mails, 0o700); err != nil {
		t.Fatal(err)
	}
	server := exec.Command(python, "testdata/smtpd.py", host, port, cert, key, mails)
	server.Stderr = os.Stderr
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		server.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the mail server says %q, %v", line, err)
	}
	return &postOffice{t, mails, &mailer.Server{
		Address: address, From: "archive@sheaf.example.jp",
		User: "sheaf", Password: "geheim", TLS: mailer.StartTLS, Roots: cert,
	}}
}

type letter struct {
	header        mail.Header
	subject, text string
}

// mails are those that came, in order.
func (p *postOffice) mails() (list []letter) {
	p.t.Helper()
	names, err := filepath.Glob(filepath.Join(p.dir, "[0-9][0-9][0-9][0-9]"))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			p.t.Fatal(err)
		}
		m, err := mail.ReadMessage(f)
		if err != nil {
			p.t.Fatal(err)
		}
		body := m.Body
		if m.Header.Get("Content-Transfer-Encoding") == "quoted-printable" {
			body = quotedprintable.NewReader(body)
		}
		text, err := io.ReadAll(body)
		f.Close()
		if err != nil {
			p.t.Fatal(err)
		}
		subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
		if err != nil {
			p.t.Fatal(err)
		}
		list = append(list, letter{m.Header, subject, strings.ReplaceAll(string(text), "\r\n", "\n")})
	}
	return list
}

var link = regexp.MustCompile(`/v1/watches/(w[0-9a-f]+)/(confirm|stop)/([0-9a-f]+)`)

// TestMail: an address is asked first; then each change comes in a mail of its own, or an hour's or
// a day's in one, over TLS and with a login; what the server refuses for now is sent later, what it
// refuses for good is not sent again.
func TestMail(t *testing.T) {
	office := newPostOffice(t)
	b := newBench(t, func(o *watch.Options) {
		o.Mail, o.Unconfirmed = office.mail, false
		o.Zone = time.FixedZone("JST", 9*60*60)
	})
	b.look()
	publish := func(paths ...string) {
		var records []*archive.Record
		for _, p := range paths {
			records = append(records, servetest.Page(page+p, b.now.String(), b.now))
		}
		b.Publish(b.now.Format("20060102"), map[string][]*archive.Record{"www.waseda.ac.jp": records})
		b.look()
		b.deliver()
	}
	wants := func(n int, when string) []letter {
		t.Helper()
		all := office.mails()
		if len(all) != n {
			t.Fatalf("%s: %d mails came, want %d", when, len(all), n)
		}
		return all
	}

	b.add(watch.Wish{Host: "www.waseda.ac.jp", Email: "reader@example.jp"})
	publish("a")
	first := wants(1, "before the address is confirmed")[0]
	if !strings.Contains(first.subject, "confirm") || first.header.Get("X-To") != "reader@example.jp" || first.header.Get("X-TLS") != "True" {
		t.Errorf("%+v", first)
	}
	found := link.FindStringSubmatch(first.text)
	if found == nil || found[2] != "confirm" {
		t.Fatalf("no link to confirm in\n%s", first.text)
	}
	if _, err := b.Confirm(t.Context(), found[1], strings.Repeat("0", len(found[3]))); err == nil {
		t.Error("a wrong token confirms")
	}
	if _, err := b.Confirm(t.Context(), found[1], found[3]); err != nil {
		t.Fatal(err)
	}

	b.now = b.now.Add(time.Hour)
	publish("b")
	told := wants(2, "at the change")[1]
	if told.subject != "new: "+page+"b" || !strings.Contains(told.text, base+"/web/20261120113000/"+page+"b") || !strings.Contains(told.text, "20:30:00 JST") ||
		told.header.Get("List-Unsubscribe-Post") == "" || told.header.Get("Auto-Submitted") != "auto-generated" {
		t.Errorf("%+v", told)
	}

	b.add(watch.Wish{Prefix: page + "h", Email: "hourly@example.jp", Every: watch.Hourly})
	b.deliver()
	again := wants(3, "another address")[2]
	found = link.FindStringSubmatch(again.text)
	if _, err := b.Confirm(t.Context(), found[1], found[3]); err != nil {
		t.Fatal(err)
	}
	publish("h1", "h2")
	b.now = b.now.Add(20 * time.Minute)
	publish("h3")
	all := wants(5, "before the hour is over") // two of the first watch: its page each change, two in one mail
	if all[3].subject != "2 changes, among them "+page+"h1" && all[3].subject != "2 changes, among them "+page+"h2" {
		t.Errorf("two changes at once: %q", all[3].subject)
	}
	b.now = b.now.Add(10 * time.Minute)
	b.deliver()
	hour := wants(6, "at the full hour")[5]
	if hour.header.Get("X-To") != "hourly@example.jp" || !strings.HasPrefix(hour.subject, "3 changes") || strings.Count(hour.text, "differences") != 0 {
		t.Errorf("%+v", hour)
	}

	found = link.FindStringSubmatch(hour.text)
	if found == nil || found[2] != "stop" {
		t.Fatalf("no link to stop in\n%s", hour.text)
	}
	if _, err := b.Stop(t.Context(), found[1], found[3]); err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(2 * time.Hour)
	publish("h4")
	b.now = b.now.Add(2 * time.Hour)
	b.deliver()
	for _, m := range wants(7, "after it was stopped")[6:] {
		if m.header.Get("X-To") != "reader@example.jp" {
			t.Errorf("%+v", m)
		}
	}
}

// TestMailIsRefused: for now, and for good.
func TestMailIsRefused(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	office := newPostOffice(t)
	b := newBench(t, func(o *watch.Options) { o.Mail = office.mail })
	b.look()
	b.add(watch.Wish{URL: page, Email: "later@example.jp"})
	b.add(watch.Wish{URL: page, Email: "nobody@example.jp"})
	b.Publish("20261121", map[string][]*archive.Record{"www.waseda.ac.jp": {servetest.Page(page, "x", b.day(1))}})
	b.look()
	for range 3 {
		b.deliver()
	}
	if n := len(office.mails()); n != 0 {
		t.Fatalf("%d mails came", n)
	}
	b.now = b.now.Add(time.Minute)
	b.deliver()
	b.now = b.now.Add(24 * time.Hour)
	b.deliver()
	if all := office.mails(); len(all) != 1 || all[0].header.Get("X-To") != "later@example.jp" {
		t.Errorf("%+v", all)
	}
	var state string
	var attempts int
	err := b.DB.QueryRow(`SELECT d.state, d.attempts FROM watch_deliveries d JOIN watches w ON w.id = d.watch WHERE w.email = 'nobody@example.jp'`).Scan(&state, &attempts)
	if err != nil || state != "dead" || attempts != 1 {
		t.Errorf("the one that is refused for good is %s after %d attempts, %v", state, attempts, err)
	}

	office.mail.Password, office.mail.Patience = "wrong", time.Second
	b.add(watch.Wish{URL: page + "2", Email: "reader@example.jp"})
	b.Publish("20261122", map[string][]*archive.Record{"www.waseda.ac.jp": {servetest.Page(page+"2", "x", b.day(2))}})
	b.look()
	b.deliver()
	office.mail.Password, office.mail.Patience = "geheim", time.Minute
	b.now = b.now.Add(time.Hour)
	b.deliver()
	if all := office.mails(); len(all) != 2 {
		t.Errorf("%d mails came once the password was mended, want 2", len(all))
	}
}
