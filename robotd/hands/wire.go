// Package hands lets other machines of a robot's site do the work of its turns: they are its hands.
// The robot, here the head, keeps frontier, politeness and batches. A hand fetches, searches and
// deflates pages.
//
// A hand dials the head and opens one stream of gRPC over TLS, on which both prove who they are by
// certificates of the head's own authority (Invite). An address belongs to one of the connected
// hands by rendezvous hashing (Thaler and Ravishankar, 1998). The head gives a turn to a hand when
// its gate gives the turn, and gives the address back when the hand has answered.
//
// A hand may make requests only for a while (Terms.Lease) after its last ping that the head has
// answered, on a clock that does not stop. So the head knows when a hand that it has lost makes no
// further request, and only then takes the hand's turns as not made.
package hands

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"sheaf/robotd/fetch"
)

// Limits of the protocol, in bytes.
const (
	partSize   = 128 << 10 // of a result's bytes in one message
	maxMessage = 4 << 20
	maxAnswer  = 32 << 20 // of an answer without its body
	maxHeader  = 1 << 20  // of the header in it
)

// LeaseTime is how long a hand may make requests after its last ping that was answered.
const LeaseTime = 10 * time.Second

// margin is how much longer than a lease the head waits, for clocks that differ in speed and a
// request that is just being written.
func margin(lease time.Duration) time.Duration { return lease / 10 }

// message is one message of either side: one of the fields is set.
type message struct {
	// From hands.
	Hello   *hello `json:"hello,omitempty"` // the first message
	Ping    *ping  `json:"ping,omitempty"`
	Part    *part  `json:"part,omitempty"`
	Leaving bool   `json:"leaving,omitempty"` // no more turns, please

	// From the head.
	Terms  *Terms `json:"terms,omitempty"` // the answer to hello
	Turn   *turn  `json:"turn,omitempty"`
	Cancel uint64 `json:"cancel,omitempty"` // ID of a turn
	Close  uint64 `json:"close,omitempty"`  // ID of a run
	Pong   uint64 `json:"pong,omitempty"`   // number of a ping

	data []byte // of Part
}

// hello is how a hand introduces itself.
type hello struct {
	Version string `json:"version"` // of its program
	Turns   int    `json:"turns"`   // that it can make at once
}

// Terms are what a hand does its work by.
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
	Number uint64   `json:"number"`
	Moved  []uint64 `json:"moved,omitempty"` // turns for which bytes have passed since the last ping
}

// turn is a page to be fetched. Its ID is used once.
type turn struct {
	ID            uint64 `json:"id"`
	Run           uint64 `json:"run,omitempty"` // over whose connection; 0: over one of its own
	fetch.Request        // what matters to a hand
}

// field is one name and value of a header. Servers do not always write UTF-8, so it is no string.
type field [2][]byte

// part is a piece of a result. The bytes of the answer come first, then those of the body,
// deflated.
type part struct {
	ID     uint64 `json:"id"`               // of the turn
	Answer int    `json:"answer,omitempty"` // how many of the bytes are the answer's
	Last   bool   `json:"last,omitempty"`
}

// answer is a result without its body, as JSON: an error, or a response with its header apart.
type answer struct {
	Kind     fetch.Kind      `json:"kind,omitempty"` // empty: no error
	Error    string          `json:"error,omitempty"`
	Live     bool            `json:"live,omitempty"` // the run's connection can carry another page
	Header   []field         `json:"header,omitempty"`
	Response *fetch.Response `json:"response,omitempty"`
}

func answerOf(resp *fetch.Response) *answer {
	bare := *resp
	bare.Header = nil
	return &answer{Header: fields(resp.Header), Response: &bare}
}

func fields(h http.Header) (all []field) {
	for name, values := range h {
		for _, v := range values {
			all = append(all, field{[]byte(name), []byte(v)})
		}
	}
	return all
}

func header(all []field) http.Header {
	h := make(http.Header, len(all))
	for _, f := range all {
		h[string(f[0])] = append(h[string(f[0])], string(f[1]))
	}
	return h
}

// service is the stream's name.
const service = "sheaf.Hands"

var stream = grpc.StreamDesc{StreamName: "Work", ServerStreams: true, ClientStreams: true}

// codec writes a message as the length of its JSON in four bytes, the JSON, and its data.
type codec struct{}

func (codec) Name() string { return "sheaf-hands" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	m := v.(*message)
	text, err := json.Marshal(m)
	head := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(text)), uint32(len(text)))
	return mem.BufferSlice{mem.SliceBuffer(append(head, text...)), mem.SliceBuffer(m.data)}, err
}

func (codec) Unmarshal(in mem.BufferSlice, v any) error {
	m, b := v.(*message), in.Materialize()
	if len(b) < 4 || uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-4) {
		return errors.New("the message is shorter than it says")
	}
	n := 4 + int(binary.BigEndian.Uint32(b))
	*m = message{data: b[n:]}
	return json.Unmarshal(b[4:n], m)
}
