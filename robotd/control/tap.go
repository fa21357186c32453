package control

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/internal/loop"
	"sheaf/robotd/config"
)

// TapOptions are the settings of a tap. Path and Log must be set.
type TapOptions struct {
	Path   string        // of the socket, which its owner alone may use
	Buffer int64         // bytes queued for each consumer; at least one record fits
	Wait   time.Duration // for room in a full queue; 0: none
	Stuck  time.Duration // time without progress after which a consumer is cut off; default one minute
	Start  []byte        // what a consumer reads first: the warcinfo record
	Log    *slog.Logger
}

// Tap offers records to the consumers that are connected. It may be used concurrently.
type Tap struct {
	opt      TapOptions
	listener net.Listener
	running  sync.WaitGroup
	dropped  atomic.Int64 // records, counted for each consumer

	mu        sync.Mutex // guards all below
	consumers map[*consumer]struct{}
	closed    bool
}

// maxConsumers is how many consumers may be connected at once, since each holds a buffer.
const maxConsumers = 16

// ListenTap opens the socket. It replaces one that a dead robot left.
func ListenTap(opt TapOptions) (*Tap, error) {
	opt.Stuck = cmp.Or(opt.Stuck, time.Minute)
	l, err := config.ListenSocket(opt.Path)
	if err != nil {
		return nil, fmt.Errorf("tap: %w", err)
	}
	t := &Tap{opt: opt, listener: l, consumers: make(map[*consumer]struct{})}
	t.running.Go(t.accept)
	return t, nil
}

func (t *Tap) accept() {
	for {
		conn, err := t.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			t.opt.Log.Warn("tap", "err", err)
			time.Sleep(100 * time.Millisecond) // short of descriptors, for example
			continue
		}
		if !t.admit(newConsumer(conn, t.opt, &t.dropped)) {
			conn.Close()
		}
	}
}

func (t *Tap) admit(c *consumer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || len(t.consumers) >= maxConsumers {
		return false
	}
	t.consumers[c] = struct{}{}
	t.running.Go(func() {
		err := c.serve()
		c.end()
		t.mu.Lock()
		delete(t.consumers, c)
		t.mu.Unlock()
		t.opt.Log.Info("tap: consumer gone", "dropped", c.dropped, "err", err)
	})
	return true
}

// Active reports whether there are consumers. Otherwise records need not be read.
func (t *Tap) Active() bool { return t.Consumers() > 0 }

// Consumers returns the number of consumers that are connected.
func (t *Tap) Consumers() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.consumers)
}

// Offer gives a record, one gzip member, to every consumer. It returns within TapOptions.Wait. The
// caller must not change the record afterwards.
func (t *Tap) Offer(record []byte) {
	t.mu.Lock()
	all := make([]*consumer, 0, len(t.consumers))
	for c := range t.consumers {
		all = append(all, c)
	}
	t.mu.Unlock()
	until := time.Now().Add(t.opt.Wait) // one wait for all consumers
	for _, c := range all {
		c.offer(record, until)
	}
}

// Dropped returns how many records were dropped, counted for each consumer.
func (t *Tap) Dropped() int64 { return t.dropped.Load() }

// Close ends the connections, and removes the socket. Consumers get what is queued for them if they
// take it within a second.
func (t *Tap) Close() error {
	err := t.listener.Close()
	t.mu.Lock()
	t.closed = true
	for c := range t.consumers {
		c.finish(time.Now().Add(time.Second))
	}
	t.mu.Unlock()
	t.running.Wait()
	return err
}

// consumer is one connection and its queue.
type consumer struct {
	conn net.Conn
	opt  TapOptions
	all  *atomic.Int64 // records that the tap has dropped

	wake chan struct{} // has an element when there may be something to send
	room chan struct{} // has an element when something was sent

	mu        sync.Mutex // guards all below
	queue     [][]byte
	size      int64
	behind    bool  // a record was dropped for it: no record waits for it now
	missed    int64 // records dropped since the last one that was queued
	dropped   int64
	finishing time.Time // when the connection is to end; zero: not yet
	gone      bool
}

func newConsumer(conn net.Conn, opt TapOptions, dropped *atomic.Int64) *consumer {
	return &consumer{
		conn: conn, opt: opt, all: dropped, queue: [][]byte{opt.Start},
		wake: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}
}

// offer queues a record, or drops it if there is no room until the given time.
func (c *consumer) offer(record []byte, until time.Time) {
	for {
		queued, wait := c.enqueue(record, until)
		if queued {
			loop.Offer(c.wake, struct{}{})
		}
		if wait <= 0 {
			return
		}
		loop.Wait(context.Background(), wait, c.room)
	}
}

// enqueue queues the record, or returns how long to wait before the next try. If it does neither,
// the record is dropped.
func (c *consumer) enqueue(record []byte, until time.Time) (queued bool, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return false, 0
	}
	if c.behind && c.size <= c.opt.Buffer/2 {
		c.behind = false
	}
	if fits := c.size == 0 || c.size+int64(len(record)) <= c.opt.Buffer; !fits || c.behind {
		if wait := time.Until(until); !c.behind && wait > 0 {
			return false, wait
		}
		c.behind = true
		c.missed++
		c.dropped++
		c.all.Add(1)
		return false, 0
	}
	if c.missed > 0 {
		c.push(gap(c.missed))
		c.missed = 0
	}
	c.push(record)
	return true, 0
}

func (c *consumer) push(record []byte) {
	c.queue = append(c.queue, record)
	c.size += int64(len(record))
}

// serve sends records until the consumer leaves, is stuck, or is told to finish.
func (c *consumer) serve() error {
	defer c.conn.Close()
	for { // a consumer that has hung up is noticed at the next record
		record, finishing := c.next()
		if record == nil {
			if !finishing.IsZero() {
				return nil
			}
			<-c.wake
			continue
		}
		if err := c.send(record, finishing); err != nil {
			return err
		}
		c.sent(len(record))
	}
}

func (c *consumer) next() (record []byte, finishing time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return nil, c.finishing
	}
	record, c.queue = c.queue[0], c.queue[1:]
	return record, c.finishing
}

// send writes a record piece by piece. Each piece that is taken counts as progress.
func (c *consumer) send(record []byte, finishing time.Time) error {
	for len(record) > 0 {
		deadline := time.Now().Add(c.opt.Stuck)
		if !finishing.IsZero() && finishing.Before(deadline) {
			deadline = finishing
		}
		if err := c.conn.SetWriteDeadline(deadline); err != nil {
			return err
		}
		n, err := c.conn.Write(record[:min(len(record), 64<<10)])
		if err != nil {
			return err
		}
		record = record[n:]
	}
	return nil
}

// sent makes room in the queue. A record counts until it is sent, so at most the buffer is held.
func (c *consumer) sent(n int) {
	c.mu.Lock()
	c.size = max(0, c.size-int64(n)) // the start of the stream was not counted
	c.mu.Unlock()
	loop.Offer(c.room, struct{}{})
}

// finish ends the connection at the given time, or when the queue is empty.
func (c *consumer) finish(at time.Time) {
	c.mu.Lock()
	c.finishing = at
	c.mu.Unlock()
	_ = c.conn.SetWriteDeadline(at) // serve gets the error of a write under way
	loop.Offer(c.wake, struct{}{})
}

// end refuses further records.
func (c *consumer) end() {
	c.mu.Lock()
	c.gone = true
	c.mu.Unlock()
	loop.Offer(c.room, struct{}{})
}

// gap returns the record that stands for n dropped records.
func gap(n int64) []byte {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	body := fmt.Sprintf("dropped: %d\r\n", n)
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	fmt.Fprintf(z, "WARC/1.1\r\nWARC-Type: metadata\r\nWARC-Record-ID: <urn:uuid:%x-%x-%x-%x-%x>\r\nWARC-Date: %s\r\n"+
		"Content-Type: application/warc-fields\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n",
		id[:4], id[4:6], id[6:8], id[8:10], id[10:], time.Now().UTC().Format("2006-01-02T15:04:05Z"), len(body), body)
	_ = z.Close() // to memory
	return out.Bytes()
}
