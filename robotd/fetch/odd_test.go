package fetch

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/internal/testkit"
)

// oddPage is the page of the odd answers, 26 bytes.
const oddPage = "<p>the page, 26 bytes long"

// odd is an answer that no standard allows, or hardly.
type odd struct {
	name, answer string
	body         string // kept of it; empty: oddPage
	truncated    string // as Response.Truncated
	garbled      bool
	kind         Kind // of the error; empty: there is none
}

// nothing is the body of an odd answer from which nothing is kept.
const nothing = "\x00"

// oddAnswers returns the odd answers, and what a fetcher makes of them.
func oddAnswers() []odd {
	var packed, zipped bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, oddPage)
	z.Close()
	w := zlib.NewWriter(&zipped)
	io.WriteString(w, oddPage)
	w.Close()
	gz, zl := packed.String(), zipped.String()
	const chunked = "1a\r\n" + oddPage + "\r\n0\r\n\r\n"
	line := func(status string) string { return status + "\r\nContent-Length: 26\r\n\r\n" + oddPage }
	head := func(fields string) string { return "HTTP/1.1 200 OK\r\n" + fields + "\r\n\r\n" + oddPage }
	length := func(value string) string { return head("Content-Length:" + value) }
	transfer := func(codings, body string) string {
		return "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + codings + "\r\n\r\n" + body
	}
	content := func(coding, body string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", coding, len(body), body)
	}
	return []odd{
		{name: "length below zero", answer: length(" -1")},
		{name: "length empty", answer: length("")},
		{name: "length twice in a list", answer: length(" 26, 26")},
		{name: "length a list, the first too long", answer: length(" 27, 26")},
		{name: "length a list, the first too short", answer: length(" 20, 26")},
		{name: "length twice", answer: length(" 26\r\nContent-Length: 26")},
		{name: "length twice, first less", answer: length(" 20\r\nContent-Length: 26")},
		{name: "length twice, first more", answer: length(" 26\r\nContent-Length: 20")},
		{name: "length empty, and then one", answer: length("\r\nContent-Length: 26")},
		{name: "length in bytes", answer: length(" 26 bytes")},
		{name: "length with a plus", answer: length(" +26")},
		{name: "length in words", answer: length(" unknown")},
		{name: "length with a zero byte", answer: length(" 26\x00")},
		{name: "length between blanks", answer: length("\t   26   ")},
		{name: "length in hexadecimal", answer: length(" 0x1a")},
		{name: "length with a fraction", answer: length(" 26.0")},
		{name: "length beyond all numbers", answer: length(" 99999999999999999999999")},
		{name: "length quoted", answer: length(` "26"`)},
		{name: "length folded", answer: length("\r\n 26")},
		{name: "length too short", answer: length(" 20"), body: oddPage[:20]},
		{name: "length too long", answer: length(" 30"), truncated: archive.TruncatedDisconnect},

		{name: "transfer identity", answer: transfer("identity", oddPage)},
		{name: "transfer none", answer: transfer("none", oddPage)},
		{name: "transfer empty", answer: transfer("", oddPage)},
		{name: "transfer chunked, chunked", answer: transfer("chunked, chunked", chunked)},
		{name: "transfer chunked twice", answer: transfer("chunked\r\nTransfer-Encoding: chunked", chunked)},
		{name: "transfer identity, chunked", answer: transfer("identity, chunked", chunked)},
		{name: "transfer CHUNKED", answer: transfer("CHUNKED", chunked)},
		{name: "transfer quoted", answer: transfer(`"chunked"`, chunked)},
		{name: "transfer with a parameter", answer: transfer("chunked;q=1", chunked)},
		{name: "transfer gzip, chunked", answer: transfer("gzip, chunked", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(gz), gz))},
		{name: "transfer gzip", answer: transfer("gzip", gz)},
		{name: "transfer unknown", answer: transfer("xchunked", oddPage)},
		{name: "transfer and a length", answer: transfer("chunked\r\nContent-Length: 5", chunked)},
		{name: "transfer and a length below zero", answer: transfer("chunked\r\nContent-Length: -1", chunked)},
		{name: "transfer, a blank before the colon", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\n\r\n" + chunked},
		{name: "transfer in HTTP/1.0", answer: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked},
		{name: "transfer chunked, and no chunks", answer: transfer("chunked", oddPage), garbled: true},

		{name: "chunks with LF", answer: transfer("chunked", strings.ReplaceAll(chunked, "\r\n", "\n"))},
		{name: "chunks with extensions", answer: transfer("chunked", "1a;a=b\r\n"+oddPage+"\r\n0;c\r\n\r\n")},
		{name: "chunks with blanks after the size", answer: transfer("chunked", "1a   \r\n"+oddPage+"\r\n0  \r\n\r\n")},
		{name: "chunks with blanks before the size", answer: transfer("chunked", "  1A\r\n"+oddPage+"\r\n  0\r\n\r\n")},
		{name: "chunks with zeros before the size", answer: transfer("chunked", "0000001a\r\n"+oddPage+"\r\n000\r\n\r\n")},
		{name: "chunks with 0x before the size", answer: transfer("chunked", "0x1a\r\n"+oddPage+"\r\n0\r\n\r\n")},
		{name: "chunks after an empty line", answer: transfer("chunked", "\r\n"+chunked)},
		{name: "chunks without line ends after them", answer: transfer("chunked", "a\r\n"+oddPage[:10]+"10\r\n"+oddPage[10:]+"0\r\n\r\n")},
		{name: "chunks with a trailer", answer: transfer("chunked", "1a\r\n"+oddPage+"\r\n0\r\nX-A: b\r\n\r\n")},
		{name: "chunks without the last empty line", answer: transfer("chunked", "1a\r\n"+oddPage+"\r\n0\r\n")},
		{name: "chunks without the last one", answer: transfer("chunked", "1a\r\n"+oddPage+"\r\n"), truncated: archive.TruncatedDisconnect},
		{name: "chunks that end in one", answer: transfer("chunked", "30\r\n"+oddPage), truncated: archive.TruncatedDisconnect},
		{name: "chunks and then none", answer: transfer("chunked", "1a\r\n"+oddPage+"\r\nzz\r\n"), truncated: archive.TruncatedDisconnect},
		{name: "chunks beyond all numbers", answer: transfer("chunked", "fffffffffffffffffff\r\n"+oddPage), truncated: archive.TruncatedDisconnect},
		{name: "no chunks", answer: transfer("chunked", ""), body: nothing, truncated: archive.TruncatedDisconnect},

		{name: "http/1.1", answer: line("http/1.1 200 OK")},
		{name: "HTTP/2", answer: line("HTTP/2 200 OK")},
		{name: "HTTP/3", answer: line("HTTP/3 200 OK")},
		{name: "HTTP/1.10", answer: line("HTTP/1.10 200 OK")},
		{name: "HTTP/", answer: line("HTTP/ 200 OK")},
		{name: "HTTP", answer: line("HTTP 200 OK")},
		{name: "two blanks in the status line", answer: line("HTTP/1.1  200 OK")},
		{name: "a tab in the status line", answer: line("HTTP/1.1\t200 OK")},
		{name: "no reason", answer: line("HTTP/1.1 200")},
		{name: "no blank before the reason", answer: line("HTTP/1.1 200OK")},
		{name: "a reason in bytes", answer: line("HTTP/1.1 200 \xe3\x81\x82\x01")},
		{name: "status of four digits", answer: line("HTTP/1.1 2000 OK")},
		{name: "status 600", answer: line("HTTP/1.1 600 OK")},
		{name: "status of two digits", answer: line("HTTP/1.1 20 OK"), kind: Protocol},
		{name: "no status", answer: line("HTTP/1.1 OK"), kind: Protocol},
		{name: "only a version", answer: line("HTTP/1.1"), kind: Protocol},
		{name: "an empty line first", answer: line("\r\nHTTP/1.1 200 OK")},
		{name: "empty lines first", answer: line("\n\r\n\r\nHTTP/1.1 200 OK")},
		{name: "a blank first", answer: line(" HTTP/1.1 200 OK")},
		{name: "a byte order mark first", answer: line(bom + "HTTP/1.1 200 OK")},
		{name: "lines with LF", answer: strings.ReplaceAll(length(" 26"), "\r\n", "\n")},
		{name: "lines with CR", answer: strings.ReplaceAll(length(" 26"), "\r\n", "\r"), kind: Protocol},
		{name: "HTTP/0.9", answer: oddPage},
		{name: "HTTP/0.9, a banner", answer: "SSH-2.0-OpenSSH_9.2\r\n", body: "SSH-2.0-OpenSSH_9.2\r\n"},
		{name: "no byte of a page", answer: "\r\n", kind: Protocol},
		{name: "a first word that breaks off", answer: "HTT", kind: Protocol},
		{name: "no text", answer: "\x15\x03\x01\x00\x02\x02\x0a", kind: Protocol},
		{name: "100 that breaks off", answer: "HTTP/1.1 100 Continue\r\nX: ", kind: Protocol},
		{name: "100 first", answer: "HTTP/1.1 100 Continue\r\n\r\n" + length(" 26")},

		{name: "a line without a colon", answer: head("nonsense\r\nContent-Length: 26")},
		{name: "a second status line", answer: head("HTTP/1.1 200 OK\r\nContent-Length: 26")},
		{name: "a name with a blank", answer: head("Bad Name: x\r\nContent-Length: 26")},
		{name: "an empty name", answer: head(": x\r\nContent-Length: 26")},
		{name: "a zero byte in a value", answer: head("X: a\x00b\r\nContent-Length: 26")},
		{name: "a fold at the beginning", answer: head(" X: a\r\nContent-Length: 26")},
		{name: "a field of 70 KB", answer: head("X: " + strings.Repeat("x", 70_000) + "\r\nContent-Length: 26")},
		{name: "a header without end", answer: "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n", body: nothing, truncated: archive.TruncatedDisconnect},
		{name: "a header that ends in a line", answer: "HTTP/1.1 200 OK\r\nContent-Ty", body: nothing, truncated: archive.TruncatedDisconnect},

		{name: "br and plain", answer: content("br", oddPage), garbled: true},
		{name: "zstd and plain", answer: content("zstd", oddPage), garbled: true},
		{name: "deflate and plain", answer: content("deflate", oddPage), garbled: true},
		{name: "gzip and plain", answer: content("gzip", oddPage)},
		{name: "br and gzip", answer: content("br", gz), body: gz, garbled: true},
		{name: "gzip twice and once", answer: content("gzip, gzip", gz)},
		{name: "unknown and plain", answer: content("utf-8", oddPage)},
		{name: "gzip without checksum", answer: content("gzip", gz[:len(gz)-8])},
		{name: "gzip with a wrong checksum", answer: content("gzip", gz[:len(gz)-8]+"12345678"), garbled: true},
		{name: "zlib with a wrong checksum", answer: content("deflate", zl[:len(zl)-4]+"1234"), garbled: true},
		{name: "gzip that ends early", answer: content("gzip", gz[:len(gz)-14]), body: oddPage[:25], truncated: archive.TruncatedDisconnect},
	}
}

// want returns what is kept of an odd answer's body.
func (o *odd) want() string {
	switch {
	case o.kind != "", o.body == nothing:
		return ""
	case o.body == "":
		return oddPage
	}
	return o.body
}

// oddServer gives each connection the current answer, and returns its address.
func oddServer(t *testing.T) (addr string, current *atomic.Pointer[string], requests *atomic.Int64) {
	current, requests = new(atomic.Pointer[string]), new(atomic.Int64)
	addr, asked := raw(t, func(w io.Writer) {
		io.WriteString(w, *current.Load())
		c := w.(*net.TCPConn)
		c.CloseWrite()
		io.Copy(io.Discard, c) // a reset would take the answer away
	})
	go func() {
		for {
			select {
			case <-asked:
				requests.Add(1)
			case <-t.Context().Done():
				return
			}
		}
	}()
	return addr, current, requests
}

// TestOddAnswers: the fetcher takes a page from one answer, and its stored header is one that every
// reader understands.
func TestOddAnswers(t *testing.T) {
	addr, current, requests := oddServer(t)
	f := fetcher(t, addr, nil)
	all := oddAnswers()
	for _, tt := range all {
		t.Run(tt.name, func(t *testing.T) {
			current.Store(&tt.answer)
			r, err := f.Get(t.Context(), Request{URL: "http://www.example.jp/"})
			if KindOf(err) != tt.kind {
				t.Errorf("%v, %v; want an error of kind %q", r, err, tt.kind)
			}
			if err != nil {
				return
			}
			defer r.Close()
			if got := body(t, r); got != tt.want() || r.Truncated != tt.truncated || r.Garbled != tt.garbled {
				t.Errorf("%q, truncated %q, garbled %v; want %q, %q, %v", got, r.Truncated, r.Garbled, tt.want(), tt.truncated, tt.garbled)
			}
			again, err := readHeader(bufio.NewReader(bytes.NewReader(r.HTTP)), 100_000)
			least, most, sure := again.lengths()
			if err != nil || again.cut || again.said != "" || !sure || least != r.Size || most != r.Size || len(again.values("Transfer-Encoding")) > 0 {
				t.Errorf("the stored header is\n%.1000s", r.HTTP)
			}
		})
	}
	testkit.Until(t, "a request for each answer", func() bool { return requests.Load() == int64(len(all)) })
}

// TestOddAnswersToOthers: what curl or wget takes of an odd page, the fetcher takes, too.
func TestOddAnswersToOthers(t *testing.T) {
	testkit.Slow(t)
	for name, args := range map[string][]string{
		"curl": {"--silent", "--compressed", "--max-time", "20"},
		"wget": {"--quiet", "--tries=1", "--timeout=20", "--compression=auto", "--content-on-error", "-O", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			path := testkit.Tool(t, name)
			addr, current, _ := oddServer(t)
			for _, tt := range oddAnswers() {
				current.Store(&tt.answer)
				out, err := exec.CommandContext(t.Context(), path, append(args, "http://"+addr+"/")...).Output()
				if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
					t.Fatal(err)
				}
				got := string(out)
				t.Logf("%s: %d bytes, %v", tt.name, len(got), err)
				if strings.HasPrefix(oddPage, got) && !strings.HasPrefix(tt.want(), got) {
					t.Errorf("%s: it takes %q, the fetcher %q", tt.name, got, tt.want())
				}
			}
		})
	}
}

// A page of HTTP/0.9 only comes where no answer came before: on a kept connection the same bytes
// are what an earlier answer has left.
func TestHeaderlessOnKeptConnection(t *testing.T) {
	addr, _ := raw(t, func(w io.Writer) {
		io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
		io.Copy(io.Discard, io.LimitReader(w.(net.Conn), 1))
		io.WriteString(w, oddPage)
	})
	run := fetcher(t, addr, nil).Run()
	defer run.Close()
	r, err := run.Get(t.Context(), Request{URL: "http://www.example.jp/1"})
	testkit.Must(t, err)
	defer r.Close()
	if r, err := run.Get(t.Context(), Request{URL: "http://www.example.jp/2"}); KindOf(err) != Protocol {
		t.Errorf("%v, %v; want an error of kind %s", r, err, Protocol)
	}
}

// FuzzAnswer: whatever a server sends, the fetcher ends, keeps within its limits, and stores a
// header that can be read again.
func FuzzAnswer(f *testing.F) {
	for _, tt := range oddAnswers() {
		if len(tt.answer) < 1000 {
			f.Add([]byte(tt.answer))
		}
	}
	const most = 10_000
	fetcher := New(Options{
		UserAgent: agent, AllowPrivate: true, MaxBody: most, MaxHeader: most, Timeout: time.Minute, TempDir: f.TempDir(),
		Overrides: map[string]string{"www.example.jp": "127.0.0.1"},
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return &canned{in: bytes.NewReader(ctx.Value(cannedKey{}).([]byte))}, nil
		},
	})
	f.Fuzz(func(t *testing.T, answer []byte) {
		run := fetcher.Run()
		defer run.Close()
		r, err := run.Get(context.WithValue(t.Context(), cannedKey{}, answer), Request{URL: "http://www.example.jp/"})
		if err != nil {
			if kind := KindOf(err); kind != Protocol && kind != Silent {
				t.Errorf("an error of kind %s: %v", kind, err)
			}
			return
		}
		defer r.Close()
		if r.Size > most || r.Size != int64(len(body(t, r))) {
			t.Errorf("%d bytes", r.Size)
		}
		h, err := readHeader(bufio.NewReader(bytes.NewReader(r.HTTP)), 3*most)
		if err != nil || h.cut || h.status != r.Status {
			t.Errorf("%v; the stored header is\n%q", err, r.HTTP)
		}
	})
}

// canned is a connection from which canned bytes come.
type canned struct {
	net.Conn
	in io.Reader
}

type cannedKey struct{}

func (c *canned) Read(p []byte) (int, error)      { return c.in.Read(p) }
func (c *canned) Write(p []byte) (int, error)     { return len(p), nil }
func (c *canned) Close() error                    { return nil }
func (c *canned) SetReadDeadline(time.Time) error { return nil }
