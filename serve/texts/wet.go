package texts

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/text/language"
)

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
