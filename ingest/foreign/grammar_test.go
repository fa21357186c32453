package foreign

import (
	"bytes"
	"crypto/sha1"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// grammar makes WARC files that the standard allows (ISO 28500, WARC/1.0 and 1.1): any type of
// record, any subset of the fields that a type may have, names in any case and any order, values in
// one line or several.
type grammar struct {
	*rand.Rand
	ids []string // of the records so far
}

// some reports true once in n times.
func (g *grammar) some(n int) bool { return g.IntN(n) == 0 }

func pick[T any](g *grammar, of ...T) T { return of[g.IntN(len(of))] }

// cased returns a name in any case.
func (g *grammar) cased(name string) string {
	switch g.IntN(4) {
	case 0:
		return strings.ToLower(name)
	case 1:
		return strings.ToUpper(name)
	case 2:
		b := []byte(name)
		for i, c := range b {
			if 'a' <= c|0x20 && c|0x20 <= 'z' && g.some(2) {
				b[i] = c ^ 0x20
			}
		}
		return string(b)
	}
	return name
}

// field returns a line, or several, of a header.
func (g *grammar) field(name, value string) string {
	space := pick(g, " ", "", "  ", "\t", "\r\n ", " \r\n\t ")
	if value != "" && g.some(20) {
		value = strings.Replace(value, " ", "\r\n  ", 1)
	}
	return g.cased(name) + ":" + space + value + pick(g, "", "", " ", "\t") + "\r\n"
}

func (g *grammar) date(version string) string {
	t := time.Date(1990+g.IntN(60), time.Month(1+g.IntN(12)), 1+g.IntN(28), g.IntN(24), g.IntN(60), g.IntN(60), g.IntN(1e9), time.UTC)
	layout := "2006-01-02T15:04:05Z"
	if version == "1.1" { // any precision of the W3C's profile of ISO 8601, and up to nine decimals
		layout = pick(g, "2006", "2006-01", "2006-01-02", "2006-01-02T15:04Z", layout, "2006-01-02T15:04:05.0Z", "2006-01-02T15:04:05.000Z", "2006-01-02T15:04:05.000000Z", "2006-01-02T15:04:05.000000000Z")
	}
	return t.Format(layout)
}

func (g *grammar) url() string {
	host := pick(g, "a.example.jp", "b.example.jp", "c.example.jp:8080", "192.0.2.7", "[2001:db8::1]")
	url := pick(g, "http://", "https://") + host + pick(g, "", "/", "/a", "/a/b.html", "/q?x=1&y=2", "/sp%20ace", fmt.Sprint("/", g.IntN(50)))
	if g.some(4) {
		url = "<" + url + ">"
	}
	return url
}

func (g *grammar) digest(b string) string {
	sum := sha1.Sum([]byte(b))
	return pick(g, "sha1:"+base32.StdEncoding.EncodeToString(sum[:]), "sha1:"+hex.EncodeToString(sum[:]), "sha1:"+strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])),
		"sha-1:"+base32.StdEncoding.EncodeToString(sum[:]), "tiger:"+strings.Repeat("A", 39))
}

// http returns an HTTP response.
func (g *grammar) http(body bool) string {
	head := pick(g, "HTTP/1.1 200 OK", "HTTP/1.0 200 OK", "HTTP/1.1 301 Moved Permanently", "HTTP/1.1 404 Not Found", "HTTP/1.1 206 Partial Content", "HTTP/1.1 200") + "\r\n"
	text := strings.Repeat(pick(g, "<p>text</p>", "x", "\x00\xff"), g.IntN(60))
	for _, f := range []string{"Content-Type: text/html", "Server: x", "location: /new", "P3P: CP=\"x\"", "X-Empty:"} {
		if g.some(2) {
			head += f + "\r\n"
		}
	}
	if g.some(4) {
		head, text = head+"Content-Encoding: gzip\r\n", gz(text)
	}
	if g.some(4) {
		head, text = head+"Transfer-Encoding: chunked\r\n", chunks(text)
	}
	if g.some(4) {
		text = text[:g.IntN(len(text)+1)]
	}
	if g.some(2) {
		head += fmt.Sprintf("Content-Length: %d\r\n", len(text))
	}
	if !body {
		text = ""
	}
	return head + "\r\n" + text
}

// record returns a record of a type.
func (g *grammar) record(kind string) string {
	version := pick(g, "1.0", "1.1")
	id := fmt.Sprintf("<urn:uuid:%08x-0000-4000-8000-%012x>", g.Uint32(), g.Uint64()>>16)
	fields := [][2]string{{"WARC-Type", kind}, {"WARC-Record-ID", id}, {"WARC-Date", g.date(version)}}
	var block string
	switch kind {
	case "response", "revisit":
		block = g.http(kind == "response")
		fields = append(fields, [2]string{"Content-Type", pick(g, "application/http;msgtype=response", "application/http; msgtype=response", "application/http", "Application/HTTP; msgtype=\"response\"")})
	case "request":
		block = "GET / HTTP/1.1\r\nHost: a.example.jp\r\n\r\n"
		fields = append(fields, [2]string{"Content-Type", "application/http;msgtype=request"})
	default:
		block = strings.Repeat("abc ", g.IntN(9))
		fields = append(fields, [2]string{"Content-Type", pick(g, "text/plain", "application/warc-fields", "image/png")})
	}
	if kind != "warcinfo" {
		fields = append(fields, [2]string{"WARC-Target-URI", g.url()})
	}
	if kind == "revisit" {
		fields = append(fields, [2]string{"WARC-Profile", "http://netpreserve.org/warc/" + version + "/revisit/" + pick(g, "identical-payload-digest", "server-not-modified")})
	}
	refers := "<urn:uuid:00000000-0000-4000-8000-000000000000>"
	if len(g.ids) > 0 {
		refers = pick(g, g.ids...)
	}
	_, payload, _ := strings.Cut(block, "\r\n\r\n")
	for _, f := range [][2]string{
		{"WARC-Concurrent-To", refers}, {"WARC-Concurrent-To", id}, {"WARC-Block-Digest", g.digest(block)}, {"WARC-Payload-Digest", g.digest(payload)},
		{"WARC-IP-Address", pick(g, "192.0.2.7", "2001:db8::1", "2001:DB8:0:0:0:0:0:1")}, {"WARC-Refers-To", refers}, {"WARC-Refers-To-Target-URI", g.url()},
		{"WARC-Refers-To-Date", g.date(version)}, {"WARC-Truncated", pick(g, "length", "time", "disconnect", "unspecified", "later")},
		{"WARC-Warcinfo-ID", refers}, {"WARC-Filename", "a \"b\" c.warc.gz"}, {"WARC-Identified-Payload-Type", "text/html"}, {"WARC-Segment-Number", "1"},
		{"X-Any", pick(g, "1", "日本", "a b  c", "", "\"quoted \\\" text\"")}, {"X-Crawler-Preferences", "mine"}, {"X-Original-WARC-Date", "2001"},
	} {
		if g.some(3) {
			fields = append(fields, f)
		}
	}
	fields = append(fields, [2]string{"Content-Length", fmt.Sprint(len(block))})
	if !g.some(3) {
		g.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	}
	g.ids = append(g.ids, id)
	text := "WARC/" + version + "\r\n"
	for _, f := range fields {
		text += g.field(f[0], f[1])
	}
	return text + "\r\n" + block + "\r\n\r\n"
}

// A file that the standard allows is imported, its batch is verified as ingest does, and each of
// its records comes back: with its ID, its fields and its head, in the WARC view or beside it. What
// was exported is taken again and comes back as it is.
func TestAnyWARCOfTheGrammar(t *testing.T) {
	t.Parallel()
	files, run := uint64(60), uint64(0)
	if testkit.Full() {
		files, run = 1000, testkit.Random(t).Uint64()
	}
	for seed := range files {
		g := &grammar{Rand: rand.New(rand.NewPCG(seed, run))}
		records := []string{g.record("resource")}
		for range +g.IntN(12) {
			records = append(records, g.record(pick(g, "response", "response", "response", "resource", "revisit", "request", "metadata", "conversion", "warcinfo")))
		}
		data := strings.Join(records, "")
		if g.some(2) {
			data = gz(records...)
		}
		c, err := convert(t, data, nil)
		if err != nil {
			t.Fatalf("file %d: %v\n%s", seed, err, strings.Join(records, ""))
		}
		checkLossless(t, strings.Join(records, ""), c)
		if c.Hosts > 0 {
			again, err := convert(t, c.warc, nil)
			testkit.Must(t, err)
			checkLossless(t, c.warc, again)
		}
		if t.Failed() {
			t.Fatalf("file %d:\n%s", seed, bytes.ReplaceAll([]byte(strings.Join(records, "")), []byte("\r\n"), []byte("\n")))
		}
	}
}

// A record whose fields are those that Sheaf would write keeps its ID, though nothing else of its
// header is to be kept.
func TestSmallestRecords(t *testing.T) {
	t.Parallel()
	const id = "<urn:uuid:61c86cf9-db5c-56ea-8f4f-4b0be3c6fa00>"
	for _, typ := range []string{"application/http;msgtype=response", "application/http; msgtype=response"} {
		const http = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1\r\n\r\nx"
		for _, version := range []string{"1.0", "1.1"} {
			data := fmt.Sprintf("WARC/%s\r\nWARC-Type: response\r\nWARC-Record-ID: %s\r\nWARC-Date: 2020-01-02T03:04:05Z\r\nWARC-Target-URI: http://a.example.jp/\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n",
				version, id, typ, len(http), http)
			c, err := convert(t, data, nil)
			testkit.Must(t, err)
			if !strings.Contains(c.warc, "WARC-Record-ID: "+id+"\r\n") {
				t.Errorf("the record has lost its ID:\n%s", c.warc)
			}
		}
	}
}
