package mailer_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/mailer"
	"sheaf/internal/testkit"
	"sheaf/test/mailtest"
)

func newOutbox(t *testing.T, s *mailer.Server) (*mailer.Outbox, func(mailer.Letter)) {
	d, err := db.Open(t.Context(), dbtest.Source(t))
	testkit.Must(t, err)
	t.Cleanup(func() { d.Close() })
	o := mailer.NewOutbox(d, s, nil)
	return o, func(l mailer.Letter) {
		t.Helper()
		testkit.Must(t, db.Transact(t.Context(), d, nil, func(tx *sql.Tx) error { return o.Add(t.Context(), tx, l) }))
	}
}

// A letter comes once, however many processes look, and as one line what has to be one line.
func TestLetterComesOnce(t *testing.T) {
	s := mailtest.New(t)
	o, add := newOutbox(t, s.Server)
	add(mailer.Letter{To: "owner@site.example", Subject: "はい\r\nBcc: all@site.example", Text: "First line\n. a point\nはい\n"})
	var g errgroup.Group
	for range 4 {
		g.Go(func() error { return o.SendDue(t.Context()) })
	}
	testkit.Must(t, g.Wait())
	testkit.Must(t, o.SendDue(t.Context()))
	got := s.To(t, "owner@site.example")
	if len(s.Letters()) != 1 || len(got) != 1 || got[0].Subject != "はい Bcc: all@site.example" || got[0].Get("Bcc") != "" || !strings.Contains(got[0].Text, "First line\n") || !strings.Contains(got[0].Text, "はい") {
		t.Errorf("%q", s.Letters())
	}
}

// What the server refuses for now is tried again after a pause, and what it refuses for good is
// not.
func TestLetterIsTriedAgain(t *testing.T) {
	for says, again := range map[string]bool{"451 come again": true, "550 no such mailbox": false} {
		s := mailtest.New(t)
		now := time.Now()
		o, add := newOutbox(t, s.Server)
		o.At(func() time.Time { return now })
		s.Set(func(verb, _ string) string { return map[bool]string{true: says}[verb == "RCPT"] })
		add(mailer.Letter{To: "owner@site.example", Subject: "x", Text: "y"})
		testkit.Must(t, o.SendDue(t.Context()))
		asked := len(s.Lines())
		testkit.Must(t, o.SendDue(t.Context()))
		if len(s.Lines()) != asked {
			t.Errorf("%s: it was tried again at once", says)
		}
		s.Set(nil)
		now = now.Add(time.Minute)
		testkit.Must(t, o.SendDue(t.Context()))
		if n := len(s.Letters()); n != map[bool]int{true: 1}[again] {
			t.Errorf("%s: %d letters came", says, n)
		}
	}
}

// A letter that was added or tried while the clock was a year ahead comes once the clock is right.
func TestLetterOfAClockThatWasAhead(t *testing.T) {
	for _, refused := range []bool{false, true} {
		s := mailtest.New(t)
		now := time.Now().AddDate(1, 0, 0)
		o, add := newOutbox(t, s.Server)
		o.At(func() time.Time { return now })
		add(mailer.Letter{To: "owner@site.example", Subject: "x", Text: "y"})
		if refused {
			s.Set(func(verb, _ string) string { return map[bool]string{true: "451 come again"}[verb == "RCPT"] })
			testkit.Must(t, o.SendDue(t.Context()))
			s.Set(nil)
		}
		now = time.Now()
		testkit.Must(t, o.SendDue(t.Context()))
		if n := len(s.Letters()); n != 1 {
			t.Errorf("refused before: %v; %d letters came", refused, n)
		}
	}
}

// An address with a line end in it reaches no command and no header of the server.
func TestLetterToNoAddress(t *testing.T) {
	s := mailtest.New(t)
	o, add := newOutbox(t, s.Server)
	add(mailer.Letter{To: "a@site.example>\r\nRCPT TO:<b@site.example", Subject: "x", Text: "y"})
	testkit.Must(t, o.SendDue(t.Context()))
	if len(s.Lines()) != 0 {
		t.Errorf("%q", s.Lines())
	}
}

// Without a server, letters are dropped.
func TestNoServer(t *testing.T) {
	o, add := newOutbox(t, nil)
	add(mailer.Letter{To: "owner@site.example", Subject: "x", Text: "y"})
	if o.Sends() {
		t.Error("it says that it sends")
	}
	testkit.Must(t, o.Run(t.Context()))
}
