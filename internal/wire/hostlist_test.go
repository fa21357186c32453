package wire_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"sheaf/internal/wire"
)

func TestNormalizeURL(t *testing.T) {
	for in, want := range map[string][2]string{
		"www.etl.go.jp:80":                   {"http://www.etl.go.jp/", "www.etl.go.jp"}, // the paper's example
		"www.etl.go.jp:8080/~a":              {"http://www.etl.go.jp:8080/~a", "www.etl.go.jp:8080"},
		"HTTP://WWW.Etl.Go.Jp.:80":           {"http://www.etl.go.jp/", "www.etl.go.jp"},
		"https://a.jp:443/x?y#z":             {"https://a.jp/x?y", "a.jp"},
		"https://a.jp:80/":                   {"https://a.jp:80/", "a.jp:80"},
		"http://[2001:DB8::0:1]:80/":         {"http://[2001:db8::1]/", "[2001:db8::1]"},
		"http://127.0.0.1:8081":              {"http://127.0.0.1:8081/", "127.0.0.1:8081"},
		"http://日本語.jp/":                     {"http://xn--wgv71a119e.jp/", "xn--wgv71a119e.jp"},
		"a.jp/?u=http://b.jp/":               {"http://a.jp/?u=http://b.jp/", "a.jp"},
		"http://a_b.jp/%7Ex/%E6%97%A5?q=%zz": {"http://a_b.jp/%7Ex/%E6%97%A5?q=%zz", "a_b.jp"},
	} {
		got, host, err := wire.NormalizeURL(in)
		if err != nil || got != want[0] || host != want[1] {
			t.Errorf("%q: got %q, %q, %v; want %q", in, got, host, err, want)
		}
	}
	for _, in := range []string{"", "http://", "ftp://a.jp/", "http://u:p@a.jp/", "http://a b.jp/", "http://a..jp/", "http://a.jp:0/", "http://a.jp:65536/",
		"http://[fe80::1%25eth0]/", "http://a.jp/\x00", "mailto:x@a.jp", "http://" + strings.Repeat("a", 64) + ".jp/", "http://-%2f.jp/", "/path"} {
		if got, host, err := wire.NormalizeURL(in); err == nil {
			t.Errorf("%q: taken as %q, %q", in, got, host)
		}
	}
}

func readList(data []byte, limit int64) ([]wire.HostLine, error) {
	var lines []wire.HostLine
	for l, err := range wire.ReadHostList(bytes.NewReader(data), limit) {
		if err != nil {
			return lines, err
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func gzipped(s string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(s))
	z.Close()
	return b.Bytes()
}

func TestHostListRoundTrip(t *testing.T) {
	want := []wire.HostLine{{URL: "http://a.jp/"}, {URL: "http://b.jp/x", Referer: "http://a.jp/links.html"},
		{URL: "http://c.jp/", Share: wire.Share{Part: 1, Of: 3, Split: true}, Depth: 7}, {URL: "http://d.jp/", Referer: "http://a.jp/", Share: wire.Share{Of: 2}}}
	var first, second bytes.Buffer
	for _, w := range []*bytes.Buffer{&first, &second} {
		if err := wire.WriteHostList(w, slices.Values(want)); err != nil {
			t.Fatal(err)
		}
		// The compressor of this one is the next one's.
		if err := wire.WriteHostList(io.Discard, slices.Values(slices.Repeat(want[1:], 10_000))); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same lines gave different bytes")
	}
	got, err := readList(first.Bytes(), 1<<20)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestHostListNamesTheLine(t *testing.T) {
	_, err := readList(gzipped("http://a.jp/\nhttp://b.jp/\thttp://a.jp/\nftp://c.jp/\nhttp://d.jp/\n"), 1<<20)
	var le *wire.LineError
	if !errors.As(err, &le) || le.Line != 3 || !strings.Contains(err.Error(), `scheme "ftp"`) {
		t.Errorf("got %v, want line 3's scheme", err)
	}
	_, err = readList(gzipped("http://a.jp/\nhttp://b.jp/"+strings.Repeat("x", wire.MaxListLine)), 1<<20)
	if !errors.As(err, &le) || le.Line != 2 {
		t.Errorf("got %v, want line 2's length", err)
	}
}

func TestHostListDamage(t *testing.T) {
	whole := gzipped(strings.Repeat("http://a.jp/\n", 1000))
	if _, err := readList(whole, 999); !errors.Is(err, wire.ErrTooLarge) {
		t.Errorf("bomb: got %v", err)
	}
	if got, err := readList(whole, 13000); err != nil || len(got) != 1000 {
		t.Errorf("at the bound: %d lines, %v", len(got), err)
	}
	for cut := range whole {
		if _, err := readList(whole[:cut], 1<<20); err == nil {
			t.Fatalf("cut at %d of %d bytes: taken", cut, len(whole))
		}
	}
	if _, err := readList([]byte("http://a.jp/\n"), 1<<20); err == nil || !strings.Contains(err.Error(), "not gzip") {
		t.Errorf("plain text: got %v", err)
	}
}

func FuzzHostLine(f *testing.F) {
	f.Add("http://www.etl.go.jp/\thttp://www.waseda.ac.jp/")
	f.Add("www.etl.go.jp:80")
	f.Add("http://a.jp/x\t\tsplit 1/3 depth 4")
	f.Add("a.jp\tb.jp\tcopy 0/2 colour red")
	f.Add("http://日本語.jp/?%zz#x")
	f.Fuzz(func(t *testing.T, line string) {
		l, err := wire.ParseHostLine(line)
		if err != nil {
			return
		}
		again := string(l.Append(nil))
		if strings.Count(again, "\n") != 1 {
			t.Fatalf("%q became more than a line: %q", line, again)
		}
		if got, err := wire.ParseHostLine(strings.TrimSuffix(again, "\n")); len(again) <= wire.MaxListLine && (err != nil || got != l) {
			t.Fatalf("%q gave %v, which gives %v, %v", line, l, got, err)
		}
	})
}
