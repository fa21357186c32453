package fetch

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strings"
	"time"
)

// Limits of the protocol, in bytes.
const (
	partSize   = 128 << 10 // of a result's bytes in one message
	maxMessage = 4 << 20
	maxAnswer  = 32 << 20 // of an answer without its body
	maxHeader  = 1 << 20  // of the header in it
)

// A hand's request for work: GET path, with Upgrade: protocol and these fields.
const (
	path         = "/work"
	protocol     = "sheaf-hand"
	versionField = "Sheaf-Version" // of the hand's program
	turnsField   = "Sheaf-Turns"   // that it can make at once
)

// LeaseTime is how long a hand may make requests after its last answered ping, unless the head's
// options set another time.
const LeaseTime = 10 * time.Second

// margin is how much longer than a lease the head waits, for clocks that differ in speed and a
// request that is just being written.
func margin(lease time.Duration) time.Duration { return lease / 10 }

// refusal is a head's reason not to let a hand work. The hand need not ask again.
type refusal struct{ why string }

func (r *refusal) Error() string { return r.why }

func refuse(format string, args ...any) *refusal { return &refusal{fmt.Sprintf(format, args...)} }

// message is one message of either side: one of the fields is set.
type message struct {
	// From hands.
	Ping    *ping `json:"ping,omitempty"`
	Part    *part `json:"part,omitempty"`
	Leaving bool  `json:"leaving,omitempty"` // no more turns, please

	// From the head.
	Terms  *Terms `json:"terms,omitempty"` // the first message
	Turn   *turn  `json:"turn,omitempty"`
	Cancel uint64 `json:"cancel,omitempty"` // ID of a turn
	Close  uint64 `json:"close,omitempty"`  // ID of a run
	Pong   int64  `json:"pong,omitempty"`   // Sent of a ping
	End    *end   `json:"end,omitempty"`    // the last message

	data []byte // of Part
}

// Terms are the settings by which a hand works.
type Terms struct {
	Contact  string        `json:"contact"` // as Config.Contact
	MaxBytes int64         `json:"max_bytes"`
	Timeout  time.Duration `json:"timeout"`
	Verify   string        `json:"verify"` // as Config.TLS.Verify
	Level    int           `json:"level"`  // of compression
	Lease    time.Duration `json:"lease"`
}

// ping asks the head for a longer lease.
type ping struct {
	Sent  int64    `json:"sent"`            // by the hand's clock
	Moved []uint64 `json:"moved,omitempty"` // turns for which bytes have passed since the last ping
}

// turn is a page to be fetched. Its ID is used once.
type turn struct {
	ID      uint64 `json:"id"`
	Run     uint64 `json:"run,omitempty"` // the run whose connection carries it; 0: a connection of its own
	Request        // what matters to a hand
}

// end says why the head ends the connection.
type end struct {
	Why     string `json:"why"`
	Refused bool   `json:"refused,omitempty"` // it would refuse the hand if it asked again
}

// part is a piece of a result. The bytes of the answer come first, then those of the body,
// deflated.
type part struct {
	ID     uint64 `json:"id"`               // of the turn
	Answer int    `json:"answer,omitempty"` // how many of the bytes are the answer's
	Last   bool   `json:"last,omitempty"`
}

// handAnswer is a result without its body, as JSON: an error, or a response with its header apart.
type handAnswer struct {
	Kind     Kind      `json:"kind,omitempty"` // empty: no error
	Error    string    `json:"error,omitempty"`
	Live     bool      `json:"live,omitempty"`   // the run's connection can carry another page
	Header   []byte    `json:"header,omitempty"` // no string: servers do not always write UTF-8
	Response *Response `json:"response,omitempty"`
}

func answerOf(resp *Response) *handAnswer {
	bare, header := *resp, new(bytes.Buffer)
	bare.Header = nil
	_ = resp.Header.Write(header) // into memory
	return &handAnswer{Header: header.Bytes(), Response: &bare}
}

// readHeader sets the header of the answer's response.
func (a *handAnswer) readHeader() error {
	in := io.MultiReader(bytes.NewReader(a.Header), strings.NewReader("\r\n"))
	header, err := textproto.NewReader(bufio.NewReader(in)).ReadMIMEHeader()
	a.Response.Header = http.Header(header)
	return err
}

// line carries messages over a connection. A message is the length of its JSON and that of its
// data, in four bytes each with the highest first, and then both. One goroutine may write while one
// reads.
type line struct {
	from *bufio.Reader
	to   *bufio.Writer
	last []byte // what was read last
}

func newLine(from io.Reader, to io.Writer) *line {
	return &line{from: bufio.NewReader(from), to: bufio.NewWriterSize(to, 64<<10)}
}

// write writes a message. If more follow at once, the message may wait for them.
func (l *line) write(m *message, more bool) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	head := binary.BigEndian.AppendUint32(make([]byte, 0, 8), uint32(len(text)))
	head = binary.BigEndian.AppendUint32(head, uint32(len(m.data)))
	for _, b := range [][]byte{head, text, m.data} { // a bufio.Writer repeats its first error
		_, err = l.to.Write(b)
	}
	if err == nil && !more {
		err = l.to.Flush()
	}
	return err
}

// read reads a message. Its data is valid until the next read.
func (l *line) read() (*message, error) {
	var head [8]byte
	if _, err := io.ReadFull(l.from, head[:]); err != nil {
		return nil, err
	}
	text, data := binary.BigEndian.Uint32(head[:]), binary.BigEndian.Uint32(head[4:])
	size := uint64(text) + uint64(data)
	if size > maxMessage {
		return nil, fmt.Errorf("a message of %d bytes; at most %d are allowed", size, maxMessage)
	}
	if uint64(cap(l.last)) < size {
		l.last = make([]byte, size)
	}
	b := l.last[:size]
	if _, err := io.ReadFull(l.from, b); err != nil {
		return nil, fmt.Errorf("a message that breaks off: %w", err)
	}
	m := &message{data: b[text:]}
	if err := json.Unmarshal(b[:text], m); err != nil {
		return nil, fmt.Errorf("a message that cannot be read: %w", err)
	}
	return m, nil
}

// carry writes the messages of out until done is closed or the connection fails.
func (l *line) carry(out <-chan *message, done <-chan struct{}) error {
	for {
		select {
		case m := <-out:
			if err := l.write(m, len(out) > 0); err != nil {
				return err
			}
		case <-done:
			return nil
		}
	}
}
