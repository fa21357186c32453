package control

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"strconv"
	"strings"
)

// Record describes one record of the stream.
type Record struct {
	Type   string            `json:"type"` // "response", "revisit", …; "metadata" if records were dropped
	URL    string            `json:"url,omitempty"`
	Date   string            `json:"date"`             // as in the record
	Status string            `json:"status,omitempty"` // of the HTTP response, such as "200 OK"
	Media  string            `json:"media,omitempty"`  // its Content-Type
	Length int64             `json:"length"`           // bytes of the block: HTTP header and body
	Lost   int64             `json:"lost,omitempty"`   // records that were dropped before this one
	Fields map[string]string `json:"fields"`           // the whole header of the record
}

// TapReader reads the headers of a tap's stream, and skips the bodies.
type TapReader struct {
	text *bufio.Reader
}

// NewTapReader reads a stream from its beginning.
func NewTapReader(r io.Reader) (*TapReader, error) {
	z, err := gzip.NewReader(bufio.NewReader(r))
	if err != nil {
		return nil, err
	}
	return &TapReader{text: bufio.NewReaderSize(z, 64<<10)}, nil
}

// maxGap is the longest text, in bytes, of a record that stands for dropped records.
const maxGap = 4 << 10

// Next returns the next record. io.EOF means that the robot has ended the stream.
func (r *TapReader) Next() (*Record, error) {
	version, err := r.text.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(version, "WARC/") {
		return nil, fmt.Errorf("tap: a record begins with %.40q", version)
	}
	head, err := textproto.NewReader(r.text).ReadMIMEHeader()
	if err != nil {
		return nil, unexpected(err)
	}
	rec := &Record{
		Type: head.Get("WARC-Type"), URL: head.Get("WARC-Target-URI"), Date: head.Get("WARC-Date"),
		Fields: make(map[string]string, len(head)),
	}
	for name := range head {
		rec.Fields[strings.ToLower(name)] = head.Get(name)
	}
	rec.Length, err = strconv.ParseInt(head.Get("Content-Length"), 10, 64)
	if err != nil || rec.Length < 0 {
		return nil, fmt.Errorf("tap: record of %s: Content-Length %q", rec.URL, head.Get("Content-Length"))
	}
	block := &io.LimitedReader{R: r.text, N: rec.Length}
	switch media := head.Get("Content-Type"); {
	case strings.HasPrefix(media, "application/http"):
		err = rec.http(block)
	case rec.Type == "metadata":
		err = rec.gap(block)
	}
	if err != nil {
		return nil, unexpected(err)
	}
	_, err = io.CopyN(io.Discard, r.text, block.N+int64(len("\r\n\r\n")))
	return rec, unexpected(err)
}

// http reads the status and the Content-Type of the response.
func (rec *Record) http(block io.Reader) error {
	text := bufio.NewReader(block)
	line, err := text.ReadString('\n')
	if err != nil {
		return err
	}
	_, status, _ := strings.Cut(strings.TrimSpace(line), " ")
	rec.Status = status
	// The header of a server may be malformed.
	if head, _ := textproto.NewReader(text).ReadMIMEHeader(); head != nil {
		rec.Media = head.Get("Content-Type")
	}
	_, err = io.Copy(io.Discard, text)
	return err
}

func (rec *Record) gap(block io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(block, maxGap))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		if n, ok := strings.CutPrefix(line, "dropped: "); ok {
			rec.Lost, err = strconv.ParseInt(strings.TrimSpace(n), 10, 64)
		}
	}
	return err
}

// unexpected turns an io.EOF in the middle of a record into io.ErrUnexpectedEOF: the robot was
// killed.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
