package serve_test

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/records"
	"sheaf/serve/servetest"
)

func captures(t *testing.T, s *servetest.Site, a *account.Account, url string) []*records.Capture {
	t.Helper()
	all, err := s.Library.Records.Captures(t.Context(), a, url)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// told says of each capture its URL, day, kind and what its body is.
func told(t *testing.T, captures []*records.Capture) string {
	t.Helper()
	var all []string
	for _, c := range captures {
		text := fmt.Sprintf("%s %d %v", c.URL, c.Time.Day(), c.Kind)
		body, err := c.Body()
		switch {
		case errors.Is(err, library.ErrNotFound):
		case err != nil:
			t.Fatal(err)
		default:
			r, err := body.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
			text += " " + string(data)
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

func TestCaptures(t *testing.T) {
	s := twoDays(t)
	for url, want := range map[string]string{
		// The short name, of the same instant and publication, comes first in the edition.
		waseda:                         "http://waseda.ac.jp/ 20 page short name; http://www.waseda.ac.jp/ 20 page home, first; http://www.waseda.ac.jp/ 21 page home, second",
		"https://waseda.ac.jp/":        "http://waseda.ac.jp/ 20 page short name; http://www.waseda.ac.jp/ 20 page home, first; http://www.waseda.ac.jp/ 21 page home, second",
		"http://www2.waseda.ac.jp/NEW": "http://www.waseda.ac.jp/new 21 page new page",
		waseda + "same":                "http://www.waseda.ac.jp/same 20 page never changes; http://www.waseda.ac.jp/same 21 revisit never changes",
		waseda + "gone":                "http://www.waseda.ac.jp/gone 20 page soon gone; http://www.waseda.ac.jp/gone 21 response",
		"http://waseda.ac.jp:8080/":    "http://www.waseda.ac.jp:8080/ 20 page port",
		"http://192.0.2.7/":            "http://192.0.2.7/ 20 page address",
		waseda + "nothing":             "",
		"ftp://waseda.ac.jp/":          "",
		"http://ac.jp/":                "",
	} {
		if got := told(t, captures(t, s, everyone, url)); got != want {
			t.Errorf("%s:\n%s, want\n%s", url, got, want)
		}
	}
}

func TestCapturesOfNumberedNames(t *testing.T) {
	s := servetest.New(t, nil)
	hosts := map[string][]*archive.Record{}
	for _, host := range []string{"example.jp", "www.example.jp", "www1.example.jp", "www22.example.jp", "www2.example.jp:81", "www-a.example.jp", "www1a.example.jp", "wwwx.example.jp", "a.example.jp"} {
		hosts[host] = []*archive.Record{servetest.Page("http://"+host+"/", host, dayOne)}
	}
	s.Publish("20261120", hosts)
	var got []string
	for _, c := range captures(t, s, everyone, "http://www22.example.jp/") {
		got = append(got, c.Segment.Host)
	}
	if strings.Join(got, " ") != "example.jp www.example.jp www1.example.jp www22.example.jp" {
		t.Errorf("captures of %v", got)
	}
	if all := captures(t, s, everyone, "http://example.jp:81/"); len(all) != 1 || all[0].Segment.Host != "www2.example.jp:81" {
		t.Errorf("at the other port: %d", len(all))
	}
}

// A capture is found only where its archive is, and gives the record that it names.
func TestCapturesObey(t *testing.T) {
	s := twoDays(t)
	keio := s.Account("keio", "always", "keio.ac.jp")
	if all := captures(t, s, keio, waseda); len(all) != 0 {
		t.Errorf("%d captures outside the scope", len(all))
	}
	for _, down := range []catalog.Tombstone{
		{Host: "www.waseda.ac.jp", Edition: "20261120"},
		{Host: "www.waseda.ac.jp", URLPrefix: waseda + "new"},
	} {
		if _, err := s.Catalog.Remove(t.Context(), down); err != nil {
			t.Fatal(err)
		}
	}
	if got := told(t, captures(t, s, everyone, waseda+"new")); got != "" {
		t.Errorf("taken down: %s", got)
	}
	same := captures(t, s, everyone, waseda+"same")
	if got := told(t, same); got != "http://www.waseda.ac.jp/same 21 revisit" {
		t.Errorf("its original is taken down: %s", got)
	}
	raw, err := same[0].Record(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	zr, err := gzip.NewReader(raw)
	if err != nil {
		t.Fatal(err)
	}
	record, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"WARC/1.1\r\n", "WARC-Type: revisit\r\n", "WARC-Target-URI: " + waseda + "same\r\n", "HTTP/1.1 304 "} {
		if !strings.Contains(string(record), part) {
			t.Errorf("record lacks %q:\n%s", part, record)
		}
	}
}

func TestAdmit(t *testing.T) {
	s := servetest.New(t, nil)
	if permit, err := s.Library.Access.Begin(t.Context(), everyone); err != nil {
		t.Error(err)
	} else {
		permit.Close()
	}
	hour := time.Now().UTC().Hour()
	closed := s.Account("closed", fmt.Sprintf("Mon-Sun %02d:00-%02d:30 UTC", (hour+12)%24, (hour+12)%24), "jp")
	var end *account.ClosedError
	if _, err := s.Library.Access.Begin(t.Context(), closed); !errors.As(err, &end) || end.Next.IsZero() {
		t.Errorf("outside the window: %v", err)
	}
}
