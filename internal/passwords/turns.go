package passwords

import (
	"context"
	"net/netip"
	"sync"

	"sheaf/internal/peer"
)

// Turns bounds how many costly checks of passwords run at once: a number in all, and one for each
// address. So an address with many checks delays another address by at most one of them.
type Turns struct {
	all chan struct{}

	mu     sync.Mutex // guards what follows
	byAddr map[netip.Prefix]*line
}

// line is the queue of one address.
type line struct {
	turn    chan struct{}
	members int // number of clients that wait or have the turn
}

// NewTurns returns Turns that let atOnce checks run at once.
func NewTurns(atOnce int) *Turns {
	return &Turns{all: make(chan struct{}, atOnce), byAddr: make(map[netip.Prefix]*line)}
}

// Wait waits for a client's turn. The caller ends the turn with done. Wait returns an error if ctx
// ends first.
func (t *Turns) Wait(ctx context.Context, remote string) (done func(), err error) {
	from := peer.Network(peer.Addr(remote))
	l := t.join(from)
	if err := enter(ctx, l.turn); err != nil {
		t.leave(from, l)
		return nil, err
	}
	if err := enter(ctx, t.all); err != nil {
		<-l.turn
		t.leave(from, l)
		return nil, err
	}
	return func() {
		<-t.all
		<-l.turn
		t.leave(from, l)
	}, nil
}

func enter(ctx context.Context, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *Turns) join(from netip.Prefix) *line {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.byAddr[from]
	if l == nil {
		l = &line{turn: make(chan struct{}, 1)}
		t.byAddr[from] = l
	}
	l.members++
	return l
}

func (t *Turns) leave(from netip.Prefix, l *line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.members--; l.members == 0 {
		delete(t.byAddr, from)
	}
}
