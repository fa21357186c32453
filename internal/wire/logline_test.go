package wire_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/internal/wire"
)

func TestLogLineForm(t *testing.T) {
	l := wire.LogLine{URL: "http://a.jp/", Sent: 120, Got: 5301, Took: 84 * time.Millisecond,
		Header: "HTTP/1.0 200 OK\r\nETag: \"x\\y\"\r\nX-Odd: \x00\x7f日\t"}
	want := `"http://a.jp/"120, 5301, 84, "HTTP/1.0 200 OK\r\nETag: \"x\\y\"\r\nX-Odd: \x00\x7f日\t"` + "\n"
	if got := string(l.Append(nil)); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
	if got, err := wire.ParseLogLine([]byte(want)); err != nil || got != l {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestParseLogLineIsTolerant(t *testing.T) {
	want := wire.LogLine{URL: "http://a.jp/", Sent: 1, Got: 2, Took: 3 * time.Millisecond, Header: `HTTP/1.0 200 OK, ETag: "x"`}
	for _, in := range []string{
		`"http://a.jp/"1,2,3,"HTTP/1.0 200 OK, ETag: \"x\""`,
		`"http://a.jp/", 1, 2, 3, "HTTP/1.0 200 OK, ETag: "x""`,
		`'http://a.jp/' 1 , 2 , 3 ,	'HTTP/1.0 200 OK, ETag: "x"'` + "\r\n",
	} {
		if got, err := wire.ParseLogLine([]byte(in)); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", in, got, err)
		}
	}
	for in, say := range map[string]string{
		``:                                     "URL: does not begin",
		`http://a.jp/ 1, 2, 3, ""`:             "URL: does not begin",
		`"http://a.jp/ 1, 2, 3, `:              "not closed",
		`""1, 2, 3, ""`:                        "URL: it is empty",
		`"u"-1, 2, 3, ""`:                      "request size",
		`"u"1, x, 3, ""`:                       "answer size",
		`"u"1, 2, 1.5, ""`:                     "milliseconds",
		`"u"1, 2, 9223372036854775807, ""`:     "duration",
		`"u"1, 2, 99999999999999999999999, ""`: "milliseconds",
		`"u"1, 2, 3`:                           "no comma",
		`"u"1, 2, 3, `:                         "header",
		`"u"1, 2, 3, "x" y`:                    "header",
		`"\q"1, 2, 3, ""`:                      `unknown escape \q`,
		`"\x4"1, 2, 3, ""`:                     `\x`,
	} {
		if got, err := wire.ParseLogLine([]byte(in)); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: got %+v, %v; want an error with %q", in, got, err, say)
		}
	}
}

func TestLogRoundTrip(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.FixedZone("JST", 9*3600))
	name := wire.LogName("robot-1", at)
	lines := []wire.LogLine{{URL: "http://a.jp/", Got: 9, Took: time.Second}, {URL: "http://b.jp/", Header: "HTTP/1.1 404 Not Found\r\n"}}
	var b bytes.Buffer
	if err := wire.WriteLog(&b, name, slices.Values(lines)); err != nil {
		t.Fatal(err)
	}
	first, err := b.ReadString('\n')
	if err != nil || first != "robot-1.20261121T000000Z\n" {
		t.Fatalf("first line %q, %v", first, err)
	}
	var got []wire.LogLine
	for l, err := range wire.ReadLogLines(&b, 1<<20) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, l)
	}
	if !slices.Equal(got, lines) {
		t.Errorf("got %+v, want %+v", got, lines)
	}
}

func TestReadLogLinesPassesCommentsAndNamesTheLine(t *testing.T) {
	n := 0
	var last error
	for _, err := range wire.ReadLogLines(bytes.NewReader(gzipped("# made by hand\n\n\"u\"1, 2, 3, \"\"\n\"u\"1, 2\n")), 1<<20) {
		if err != nil {
			last = err
			continue
		}
		n++
	}
	var le *wire.LineError
	if n != 1 || !errors.As(last, &le) || le.Line != 4 {
		t.Errorf("%d lines, %v; want 1 and an error in line 4", n, last)
	}
	for _, err := range wire.ReadLogLines(io.LimitReader(bytes.NewReader(gzipped(strings.Repeat("#\n", 600))), 1<<20), 1000) {
		if !errors.Is(err, wire.ErrTooLarge) {
			t.Errorf("got %v", err)
		}
	}
}

func FuzzLogLine(f *testing.F) {
	f.Add([]byte(`"http://a.jp/"120, 5301, 84, "HTTP/1.0 200 OK\r\nETag: \"x\""`))
	f.Add([]byte(`'u', 1 , 2 , 3 , 'a "b" 'c''`))
	f.Fuzz(func(t *testing.T, line []byte) {
		l, err := wire.ParseLogLine(line)
		if err != nil {
			return
		}
		again := l.Append(nil)
		if bytes.Count(again, []byte("\n")) != 1 {
			t.Fatalf("%q became more than a line: %q", line, again)
		}
		if got, err := wire.ParseLogLine(again); len(again) <= wire.MaxLogLine && (err != nil || got != l) {
			t.Fatalf("%q gave %+v, which gives %+v, %v", line, l, got, err)
		}
	})
}
