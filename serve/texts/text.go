package texts

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"io"
	"time"
	"unicode"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/language"

	"sheaf/internal/media"
)

// Text is what was taken out of a page.
type Text struct {
	Title    string
	Main     string // lines
	Language string // as BCP 47 has it, such as ja; empty: not known
	Charset  string // in which the page is written: see CharsetName
	Declared string // charset that page or server declares instead; empty: the same, or none
	SimHash  uint64 // of Main, for near duplicates; 0: Main is too short
	Reason   string // why Main is empty, or not all of it
}

// Values of Text.Reason.
const (
	NoText  = "no text" // the page has no words
	Frames  = "frames"  // the page only says which others to show
	TooLong = "longer than 2 MiB"
	Damaged = "damaged" // the stored record cannot be read
)

// IsPage reports whether a body of a Content-Type that begins with head is HTML.
func IsPage(contentType string, head []byte) bool {
	switch media.Sniff(contentType, head) {
	case "text/html", "application/xhtml+xml":
		return true
	}
	return false
}

// Extract takes the text out of a page. body is the page's beginning; at most MaxBody bytes of it
// are looked at.
func Extract(body []byte, contentType string) *Text {
	t := &Text{}
	if len(body) > MaxBody {
		body, t.Reason = body[:MaxBody], TooLong
	}
	p, cs := read(body, contentType)
	t.Title, t.Charset, t.Declared = p.title, CharsetName(cs.Name), CharsetName(cs.Doubted)
	head := p
	if len(body) > HeadBytes {
		head, _ = read(body[:HeadBytes], contentType)
	}
	t.Language = head.languageOf(cs.Name)
	t.Main = p.mainText()
	t.SimHash = simHash(t.Main)
	switch {
	case t.Main == "" && p.frameset:
		t.Reason = Frames
	case t.Main == "":
		t.Reason = NoText
	}
	return t
}

// Language returns the language of a page that begins with head, as Extract finds it.
func Language(head []byte, contentType string) string {
	p, cs := read(head[:min(len(head), HeadBytes)], contentType)
	return p.languageOf(cs.Name)
}

func read(body []byte, contentType string) (*page, media.Charset) {
	text, cs := media.DecodeText(body, contentType)
	return walk(text, media.Sniff(contentType, body) == "application/xhtml+xml"), cs
}

// CharsetName returns a charset's MIME name, as Common Crawl writes it, such as Shift_JIS and
// UTF-8. If MIME has none, it returns name.
func CharsetName(name string) string {
	enc, err := htmlindex.Get(name)
	if err != nil {
		return name
	}
	if preferred, err := ianaindex.MIME.Name(enc); err == nil {
		return preferred
	}
	return name // MIME has no name for some of the web's
}

// simHash returns a fingerprint of a text: texts that have much in common differ in few of its
// bits (Charikar 2002). Its features are all sequences of four letters or digits, in lower case. It
// is 0 if the text has fewer.
func simHash(text string) uint64 {
	var votes [64]int32
	var window uint64
	n := 0
	for _, r := range text {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			continue
		}
		window = window<<16 | uint64(uint16(unicode.ToLower(r)))
		if n++; n < 4 {
			continue
		}
		h := mix(window)
		for i := range votes {
			votes[i] += int32(h>>i&1)<<1 - 1
		}
	}
	var sum uint64
	for i, v := range votes {
		if v > 0 {
			sum |= 1 << i
		}
	}
	return sum
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// ISO3 returns the language's code of ISO 639-3, as Common Crawl writes it: jpn for ja. It is empty
// if the language is not known.
func ISO3(lang string) string {
	base, err := language.ParseBase(lang)
	if lang == "" || err != nil {
		return ""
	}
	return base.ISO3()
}

// Origin says which record a text was taken out of.
type Origin struct {
	URL    string
	Time   time.Time
	Record string // its WARC-Record-ID
}

// WET writes texts as a WARC file of conversion records, as Common Crawl's WET files: a gzip member
// for each record. The same texts give the same bytes. It must not be used concurrently.
type WET struct {
	to  io.Writer
	zip *gzip.Writer // not pgzip's: it takes a new MiB for each member, and few texts have more than some KB
}

// NewWET begins a file with its warcinfo record. The file needs no end.
func NewWET(to io.Writer) (*WET, error) {
	w := &WET{to: to, zip: gzip.NewWriter(to)}
	fields := fmt.Sprintf("software: sheaf\r\nformat: WARC File Format 1.1\r\ndescription: texts of pages, extraction %d\r\n", Version)
	return w, w.record(fmt.Appendf(nil, "WARC-Type: warcinfo\r\nWARC-Record-ID: %s\r\nWARC-Date: 1999-01-01T00:00:00Z\r\nContent-Type: application/warc-fields\r\n", id(fields)), fields)
}

// Add writes the text of a page. It writes nothing if the page has no title and no text.
func (w *WET) Add(t *Text, of Origin) error {
	block := t.Main
	if t.Title != "" {
		block = t.Title + "\n" + block
	}
	if block == "" {
		return nil
	}
	sum := sha1.Sum([]byte(block))
	head := fmt.Appendf(nil, "WARC-Type: conversion\r\nWARC-Target-URI: %s\r\nWARC-Date: %s\r\nWARC-Record-ID: %s\r\nWARC-Refers-To: %s\r\nWARC-Block-Digest: sha1:%s\r\n",
		of.URL, of.Time.UTC().Format(time.RFC3339Nano), id(of.Record, of.URL, block), of.Record, base32.StdEncoding.EncodeToString(sum[:]))
	if code := ISO3(t.Language); code != "" {
		head = append(head, "WARC-Identified-Content-Language: "+code+"\r\n"...)
	}
	return w.record(append(head, "Content-Type: text/plain\r\n"...), block)
}

// record writes a record with a header, which has no length yet, and a block.
func (w *WET) record(head []byte, block string) error {
	w.zip.Reset(w.to)
	var b bytes.Buffer
	fmt.Fprintf(&b, "WARC/1.1\r\n%sContent-Length: %d\r\n\r\n", head, len(block))
	b.WriteString(block)
	b.WriteString("\r\n\r\n")
	if _, err := w.zip.Write(b.Bytes()); err != nil {
		return err
	}
	return w.zip.Close()
}

// id returns the ID of a record: a UUID (version 8) of what identifies it.
func id(parts ...string) string {
	u := sha256.Sum256(fmt.Appendf(nil, "wet %d %q", Version, parts))
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("<urn:uuid:%x-%x-%x-%x-%x>", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16])
}
