package ftpd_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/servetest"
)

// noise is text of which compression leaves half.
func noise(n int) string {
	random := make([]byte, n/2)
	rand.NewChaCha8([32]byte{}).Read(random)
	return hex.EncodeToString(random)
}

// change changes the account jp of a site.
func change(t *testing.T, s *servetest.Site, c account.Change) {
	t.Helper()
	if _, err := s.Accounts.Change(t.Context(), "jp", c); err != nil {
		t.Fatal(err)
	}
}

func rate(t *testing.T, text string) *account.Rates {
	t.Helper()
	r, err := account.ParseRates(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// begun is a transfer at a low rate, of which some bytes have come: for stored
// (the kernel sends them) and for computed archives.
func begun(t *testing.T, f func(t *testing.T, s *servetest.Site, addr string, r io.ReadCloser, got []byte, want []byte)) {
	for _, name := range []string{"20261122.members.tar.gz", "current.warc.gz"} {
		t.Run(name, func(t *testing.T) {
			s, addr := newSite(t)
			s.Publish("20261122", map[string][]*archive.Record{host: {servetest.Page("http://"+host+"/big", noise(512<<10), day)}})
			want := retr(t, login(t, addr, "jp"), dir+name, 0)
			change(t, s, account.Change{Rate: rate(t, "4KiB")})
			r, err := login(t, addr, "jp").Retr(dir + name)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 100)
			if _, err := io.ReadFull(r, got); err != nil {
				t.Fatal(err)
			}
			f(t, s, addr, r, got, want)
		})
	}
}

// A transfer that would take minutes ends in no time when its account's rate is raised.
func TestRateChangesWhileATransferRuns(t *testing.T) {
	begun(t, func(t *testing.T, s *servetest.Site, _ string, r io.ReadCloser, got, want []byte) {
		change(t, s, account.Change{Rate: rate(t, "unlimited")})
		rest, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil || !bytes.Equal(append(got, rest...), want) {
			t.Errorf("%d of %d bytes, %v", len(got)+len(rest), len(want), err)
		}
	})
}

// When an account is taken away its transfers end, broken, and its idle sessions
// are told and cut.
func TestDeletedAccountEndsItsSessions(t *testing.T) {
	begun(t, func(t *testing.T, s *servetest.Site, addr string, r io.ReadCloser, got, want []byte) {
		idle, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer idle.Close()
		idle.SetDeadline(time.Now().Add(testkit.Patience))
		io.WriteString(idle, "USER jp\r\nPASS jp\r\n")
		replies := bufio.NewReader(idle)
		for range 3 { // 220, 331, 230
			if _, err := replies.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Accounts.Delete(t.Context(), "jp"); err != nil {
			t.Fatal(err)
		}
		if rest, err := io.ReadAll(replies); err != nil || !strings.HasPrefix(string(rest), "421 This account has been taken away") {
			t.Errorf("the idle session is told %q, %v", rest, err)
		}
		rest, readErr := io.ReadAll(r)
		if err := errors.Join(readErr, r.Close()); err == nil || len(got)+len(rest) >= len(want) {
			t.Errorf("the transfer went on to %d of %d bytes: %v", len(got)+len(rest), len(want), err)
		}
	})
}

// The window is closed while a file is sent: it goes on within the grace, and
// nothing is begun.
func TestWindowClosesWhileATransferRuns(t *testing.T) {
	begun(t, func(t *testing.T, s *servetest.Site, addr string, r io.ReadCloser, got, want []byte) {
		shut := s.Account("other", "never", "jp").Window
		change(t, s, account.Change{Window: shut, Rate: rate(t, "unlimited")})
		rest, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil || !bytes.Equal(append(got, rest...), want) {
			t.Errorf("%d of %d bytes, %v", len(got)+len(rest), len(want), err)
		}
		var reply *textproto.Error
		if _, err := login(t, addr, "jp").Retr(dir + "current.tar.gz"); !errors.As(err, &reply) || reply.Code != 450 {
			t.Errorf("%v", err)
		}
	})
}

// What a user is told whose quota is used up: by when to come again.
func TestQuotaIsTold(t *testing.T) {
	s, addr := newSite(t)
	s.Publish("20261122", map[string][]*archive.Record{host: {servetest.Page("http://"+host+"/big", noise(512<<10), day)}})
	c := login(t, addr, "jp")
	half := int64(len(retr(t, c, dir+"20261122.tar.gz", 0))) / 2
	change(t, s, account.Change{Quota: &half})
	var reply *textproto.Error
	tomorrow := testkit.NextMidnight()
	_, err := c.Retr(dir + "20261122.tar.gz")
	if !errors.As(err, &reply) || reply.Code != 450 || !strings.Contains(reply.Msg, tomorrow.Format(time.RFC3339)) {
		t.Errorf("%v", err)
	}
	if text := retr(t, c, "/README", 0); len(text) == 0 {
		t.Error("README is not to be had")
	}
}

// More than twice the quota is not sent, even of a file that is under way; the
// reply says when to go on.
func TestQuotaEndsATransfer(t *testing.T) {
	begun(t, func(t *testing.T, s *servetest.Site, _ string, r io.ReadCloser, got, want []byte) {
		quota := int64(len(want)) / 4 // the file has been fetched once already
		change(t, s, account.Change{Quota: &quota})
		rest, readErr := io.ReadAll(r)
		err := errors.Join(readErr, r.Close())
		if len(got)+len(rest) >= len(want) || err == nil || !strings.Contains(err.Error(), "451") || !strings.Contains(err.Error(), "the next day begins") {
			t.Errorf("%d of %d bytes, %v", len(got)+len(rest), len(want), err)
		}
	})
}
