package records

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/naming"
	"sheaf/archive/urlindex"
	"sheaf/internal/testkit"
	"sheaf/serve/library"
)

func TestParseTime(t *testing.T) {
	for text, want := range map[string]string{
		"2026":                      "2026-01-01T00:00:00Z 2026-12-31T23:59:59.999999999Z",
		"202602":                    "2026-02-01T00:00:00Z 2026-02-28T23:59:59.999999999Z",
		"20261121":                  "2026-11-21T00:00:00Z 2026-11-21T23:59:59.999999999Z",
		"20261121031500":            "2026-11-21T03:15:00Z 2026-11-21T03:15:00.999999999Z",
		"2026-11-21":                "2026-11-21T00:00:00Z 2026-11-21T23:59:59.999999999Z",
		"2026-11-21T03:15:00+09:00": "2026-11-20T18:15:00Z 2026-11-20T18:15:00.999999999Z",
		"2026-11-21T03:15:00.5Z":    "2026-11-21T03:15:00.5Z 2026-11-21T03:15:00.5Z",
		"20260230":                  "no such time",
		"202":                       "3 digits; want 4 (a year), 6, 8, 10, 12 or 14",
		"":                          "0 digits; want 4 (a year), 6, 8, 10, 12 or 14",
		"tomorrow":                  "want 4 to 14 digits such as 20261121, or RFC 3339",
	} {
		first, last, err := parseTime(text)
		got := first.Format(time.RFC3339Nano) + " " + last.Format(time.RFC3339Nano)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]library.Target{
		"example.jp":                        {Match: library.MatchExact, Host: "example.jp", Key: "jp,example)/"},
		"https://WWW.Example.JP:443/A?b=2#": {Match: library.MatchExact, Host: "example.jp", Key: "jp,example)/a?b=2"},
		"www.example.jp:8080/":              {Match: library.MatchExact, Host: "example.jp:8080", Key: "jp,example:8080)/"},
		"日本語.jp/ページ":                        {Match: library.MatchExact, Host: "xn--wgv71a119e.jp", Key: "jp,xn--wgv71a119e)/%e3%83%9a%e3%83%bc%e3%82%b8"},
		"http://192.0.2.1/x*":               {Match: library.MatchPrefix, Host: "192.0.2.1", Key: "192.0.2.1)/x"},
		"example.jp/a/*":                    {Match: library.MatchPrefix, Host: "example.jp", Key: "jp,example)/a/"},
		"example.jp/a?*":                    {Match: library.MatchPrefix, Host: "example.jp", Key: "jp,example)/a?"},
		" example.jp/a ":                    {Match: library.MatchExact, Host: "example.jp", Key: "jp,example)/a"},
		"*.jp":                              {Match: library.MatchDomain, Host: "jp"},
		"*.www.example.jp/*":                {Match: library.MatchDomain, Host: "www.example.jp"},
		"http://u:p@example.jp.:81/a":       {Match: library.MatchExact, Host: "example.jp:81", Key: "jp,example:81)/a"},
		"*.example.jp.":                     {Match: library.MatchDomain, Host: "example.jp"},
		"[2001:db8::1]:81/":                 {Match: library.MatchExact, Host: "[2001:db8::1]:81", Key: "[2001:db8::1]:81)/"},
	} {
		if got, err := parseTarget(text, 0); err != nil || got != want {
			t.Errorf("%s: %+v %v, want %+v", text, got, err, want)
		}
	}
	star := library.Target{Match: library.MatchExact, Host: "example.jp", Key: "jp,example)/a*"}
	if got, err := parseTarget("http://example.jp/a*", library.MatchExact); err != nil || got != star {
		t.Errorf("exact with an asterisk: %+v %v, want %+v", got, err, star)
	}
}

// The targets of a list do not overlap, so that no record is returned twice.
func TestListIsDisjoint(t *testing.T) {
	targets, err := ReadTargets(strings.NewReader(strings.Join([]string{
		"http://a.jp/x", "a.jp/x", "www.a.jp/y*", "a.jp/y/1", "a.jp/yy*", "a.jp/z",
		"b.jp", "http://b.jp/1", "b.jp/2*", "*.c.jp", "c.jp", "d.c.jp:81", "e.d.c.jp/1", "*.d.c.jp", "c.jp.org",
	}, "\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, target := range targets {
		got = append(got, fmt.Sprintf("%d %s %s", target.Match, target.Host, target.Key))
	}
	want := "1 a.jp jp,a)/x; 2 a.jp jp,a)/y; 1 a.jp jp,a)/z; 3 b.jp ; 4 c.jp ; 3 c.jp.org "
	if text := strings.Join(got, "; "); text != want {
		t.Errorf("%s, want\n%s", text, want)
	}
}

func TestCursorExpires(t *testing.T) {
	q, err := ParseQuery(url.Values{"url": {"*.jp"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		issued time.Time
		want   error
	}{
		{time.Now().Add(-CursorLife + time.Hour), nil},
		{time.Now().Add(-CursorLife - time.Hour), ErrCursorExpired},
		{time.Now().Add(2 * time.Hour), new(ParamError)},
	} {
		cursor := Cursor{Query: q.id(), Issued: c.issued.Unix(), Position: Position{Host: "jp,example", Position: urlindex.Position{Key: "jp,example)/", Time: c.issued.UTC().Round(0), Seq: 3, Offset: 700}}}
		again, err := ParseQuery(url.Values{"url": {"*.jp"}, "fl": {"digest"}, "cursor": {cursor.String()}}, nil)
		var parameter *ParamError
		switch {
		case c.want == nil && (err != nil || *again.Search.After != cursor.Position):
			t.Errorf("%v: %v", c.issued, err)
		case errors.Is(c.want, ErrCursorExpired) && !errors.Is(err, ErrCursorExpired):
			t.Errorf("%v: %v", c.issued, err)
		case errors.As(c.want, &parameter) && !errors.As(err, &parameter):
			t.Errorf("%v: %v", c.issued, err)
		}
	}
}

// The first n characters are compared, however many bytes they have.
func TestCollapseByCharacters(t *testing.T) {
	for n, ok := range map[int]bool{1: false, 2: true} {
		c := collapse{field: "url", first: len("http://example.jp/") + n}
		first, _, err := c.pass(t.Context(), &Capture{Cell: &archive.Cell{URL: "http://example.jp/あい"}}, "")
		testkit.Must(t, err)
		if _, differs, err := c.pass(t.Context(), &Capture{Cell: &archive.Cell{URL: "http://example.jp/あう"}}, first); differs != ok || err != nil {
			t.Errorf("with %d characters of the path: %v, %v", n, differs, err)
		}
	}
}

// Any parameters either parse or return an error that names one of them. A cursor of a parsed query
// parses for that query.
func FuzzParse(f *testing.F) {
	q, _ := ParseQuery(url.Values{"url": {"*.jp"}}, nil)
	f.Add("url=*.jp&cursor=" + (&Cursor{Query: q.id(), Issued: time.Now().Unix()}).String())
	f.Add("url=http://a.jp/%00*&matchType=prefix&filter=~url:(a|b)*$&from=2026&to=20261121")
	f.Add("filter=!=mime:text/html&collapse=timestamp:8&latest=1&sort=default&limit=-4&output=json&fl=url,time")
	f.Add("url=[::1]:80&closest=20260101&resumeKey=e30")
	f.Fuzz(func(t *testing.T, text string) {
		values, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		q, err := ParseQuery(values, nil)
		if err != nil {
			var parameter *ParamError
			if !errors.Is(err, ErrCursorExpired) && !errors.As(err, &parameter) {
				t.Fatalf("%q: %v", text, err)
			}
			if parameter != nil && !values.Has(parameter.Name) {
				t.Fatalf("%q: the error names %q, which is not there", text, parameter.Name)
			}
			return
		}
		for _, target := range q.Search.Targets {
			if target.Host == "" {
				continue
			}
			if _, err := naming.HostFromPath(naming.HostPath(target.Host)); err != nil {
				t.Fatalf("%q: searches %q: %v", text, target.Host, err)
			}
		}
		cursor := Cursor{Query: q.id(), Issued: time.Now().Unix(), Marks: make([]string, len(q.collapses))}
		values.Del("resumeKey")
		values.Set("cursor", cursor.String())
		if _, err := ParseQuery(values, nil); err != nil && q.closest.IsZero() && !q.last {
			t.Fatalf("%q with a cursor of it: %v", text, err)
		}
	})
}

func FuzzCursor(f *testing.F) {
	f.Add((&Cursor{Query: "0011223344556677", Issued: 1, Position: Position{Position: urlindex.Position{Key: "jp,a)/", Time: time.Unix(9, 9).UTC()}}, Marks: []string{"x"}}).String())
	f.Add("e30")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCursor(text)
		if err != nil {
			return
		}
		again, err := parseCursor(c.String())
		if err != nil || again.String() != c.String() {
			t.Fatalf("%q: %+v, then %+v, %v", text, c, again, err)
		}
	})
}

func FuzzReadList(f *testing.F) {
	f.Add("a.jp\n*.b.jp\nhttp://c.jp/d*\n")
	f.Fuzz(func(t *testing.T, text string) {
		targets, err := ReadTargets(strings.NewReader(text))
		if err != nil {
			return
		}
		for i, a := range targets {
			for _, b := range targets[i+1:] {
				if a == b {
					t.Fatalf("%q: %+v twice", text, a)
				}
			}
		}
	})
}

func FuzzFilter(f *testing.F) {
	f.Add("!~url:(a|b)*", "abba")
	f.Add("status:200", "200")
	f.Fuzz(func(t *testing.T, text, value string) {
		filter, err := parseFilter(text)
		if err != nil {
			return
		}
		filter.holds(value)
	})
}

func FuzzTime(f *testing.F) {
	f.Add("20261121")
	f.Add("2026-11-21T00:00:00Z")
	f.Fuzz(func(t *testing.T, text string) {
		if first, last, err := parseTime(text); err == nil && last.Before(first) {
			t.Fatalf("%q: from %v to %v", text, first, last)
		}
	})
}
