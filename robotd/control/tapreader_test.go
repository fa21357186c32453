package control

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
)

func warcRecord(kind, url, media, block string) []byte {
	return zipped(fmt.Sprintf("WARC/1.1\r\nWARC-Type: %s\r\nWARC-Target-URI: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n",
		kind, url, media, len(block), block))
}

// A consumer is told of answers, of what it lost, and of a robot that was killed.
func TestReader(t *testing.T) {
	const http = "application/http;msgtype=response"
	var stream bytes.Buffer
	for _, member := range [][]byte{
		warcRecord("warcinfo", "", "application/warc-fields", "software: x\r\n"),
		warcRecord("response", "http://a.test/", http, "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n<p>gone"),
		gap(17),
		warcRecord("response", "http://a.test/odd", http, "HTTP/1.0 200\r\nno header at all\r\n\r\n\x00\xff"),
		warcRecord("revisit", "http://a.test/same", http, "HTTP/1.1 304 Not Modified\r\n\r\n"),
	} {
		stream.Write(member)
	}
	r, err := NewTapReader(bytes.NewReader(stream.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []Record{
		{Type: "warcinfo"}, {Type: "response", URL: "http://a.test/", Status: "404 Not Found", Media: "text/html"},
		{Type: "metadata", Lost: 17}, {Type: "response", URL: "http://a.test/odd", Status: "200"},
		{Type: "revisit", URL: "http://a.test/same", Status: "304 Not Modified"},
	} {
		got, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if got.Type != want.Type || got.URL != want.URL || got.Status != want.Status || got.Media != want.Media || got.Lost != want.Lost {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	cut := stream.Bytes()[:stream.Len()-20]
	if r, err = NewTapReader(bytes.NewReader(cut)); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = r.Next()
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a stream that was cut ends with %v", err)
	}
}
