package control

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

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

	mu        sync.Mutex // guards all below
	consumers map[*consumer]struct{}
	closed    bool
	dropped   int64 // records dropped for consumers that have left
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
		if !t.admit(newConsumer(conn, t.opt)) {
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
		dropped := c.end()
		t.mu.Lock()
		delete(t.consumers, c)
		t.dropped += dropped
		t.mu.Unlock()
		t.opt.Log.Info("tap: consumer gone", "dropped", dropped, "err", err)
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
func (t *Tap) Dropped() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.dropped
	for c := range t.consumers {
		n += c.lost()
	}
	return n
}

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
