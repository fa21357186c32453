package fetch

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/internal/page"
)

// hand is the head's view of a hand that is connected, or was.
type hand struct {
	head    *Head
	cert    *x509.Certificate
	name    string
	remote  string
	version string
	since   time.Time
	places  chan struct{} // one for each turn that it has
	out     chan *message
	ctx     context.Context         // ends when the hand is to go; from then on no message counts
	kick    context.CancelCauseFunc // ends ctx; only the first reason counts
	heard   atomic.Int64            // instant of the last ping
	pages   atomic.Int64
	bytes   atomic.Int64

	mu      sync.Mutex         // guards all below
	leaving bool               // it is given no more turns
	turns   map[uint64]*errand // each is guarded by mu while it is there
}

// errand is a turn that a hand has.
type errand struct {
	progress func()
	head     []byte // what has come of the answer
	packed   *packedBody
	failed   error         // of this machine's disk
	done     chan struct{} // closed when all has come
}

// maxTurns bounds the turns of one hand.
const maxTurns = 100_000

func newHand(h *Head, cert *x509.Certificate, remote, version string, turns int) *hand {
	w := &hand{
		head: h, cert: cert, name: cert.Subject.CommonName, remote: remote, version: version, since: time.Now(),
		places: make(chan struct{}, min(turns, maxTurns)), out: make(chan *message, 16), turns: make(map[uint64]*errand),
	}
	w.ctx, w.kick = context.WithCancelCause(context.Background())
	w.heard.Store(instant())
	return w
}

// silent returns how long ago the hand was last heard.
func (w *hand) silent() time.Duration { return time.Duration(instant() - w.heard.Load()) }

// end forgets the turns of a hand that is gone.
func (w *hand) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.turns {
		w.drop(id)
	}
}

// drop forgets a turn whose result is not used. The caller holds mu.
func (w *hand) drop(id uint64) {
	if e := w.turns[id]; e != nil {
		delete(w.turns, id)
		w.ifLeft()
		_ = e.packed.Close() // its temporary file goes with the folder at the next start
	}
}

// errLeft is the reason of a hand that goes because it has finished its turns.
var errLeft = errors.New("it has left")

// ifLeft ends the connection of a hand that is leaving, once it has no more turns. The caller holds
// mu.
func (w *hand) ifLeft() {
	if w.leaving && len(w.turns) == 0 {
		w.kick(errLeft)
	}
}

func (w *hand) isLeaving() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.leaving
}

func (w *hand) send(m *message) {
	select {
	case w.out <- m:
	case <-w.ctx.Done():
	}
}

// read takes the messages of the hand until the connection ends or the hand breaks the protocol.
func (w *hand) read(from *line) error {
	for {
		m, err := from.read()
		if err != nil {
			return err
		}
		switch {
		case m.Ping != nil:
			w.heard.Store(instant())
			w.moved(m.Ping.Moved)
			w.send(&message{Pong: m.Ping.Sent})
		case m.Part != nil:
			if err := w.take(m.Part, m.data); err != nil {
				return fmt.Errorf("turn %d: %w", m.Part.ID, err)
			}
		case m.Leaving:
			w.mu.Lock()
			w.leaving = true
			w.ifLeft()
			w.mu.Unlock()
		default:
			return errors.New("a message that no hand sends")
		}
	}
}

func (w *hand) moved(ids []uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		if e := w.turns[id]; e != nil && e.progress != nil {
			e.progress()
		}
	}
}

// take takes in a part of a result. If the turn is not out at this hand, or has its result already,
// take drops the part, and counts the result as refused.
func (w *hand) take(p *part, data []byte) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.turns[p.ID]
	if e == nil || w.ctx.Err() != nil {
		if p.Last {
			w.head.refused.Add(1)
			w.head.opt.Log.Warn("a hand's result refused: no such turn is out", "hand", w.name)
		}
		return nil
	}
	if e.progress != nil {
		e.progress()
	}
	if p.Answer < 0 || p.Answer > len(data) || len(e.head)+p.Answer > maxAnswer {
		return errTooLong
	}
	e.head = append(e.head, data[:p.Answer]...)
	if e.failed == nil {
		if _, err = e.packed.Write(data[p.Answer:]); err != nil && !errors.Is(err, errTooLong) {
			e.failed, err = err, nil
		}
	}
	if err == nil && p.Last {
		delete(w.turns, p.ID)
		close(e.done)
		w.ifLeft()
	}
	return err
}

// Errors of a turn that a hand has not made. Its page stays the next one of its host.
var (
	errNotGiven = errors.New("the hand has gone before it was given the turn")
	errLost     = errors.New("the hand has gone and gave the turn back")
	errBroken   = errors.New("the hand has broken off the turn")
)

// get has the hand fetch a page. When it returns, the hand makes no request of the turn any more.
// live reports whether the run's connection can carry another page.
func (w *hand) get(ctx context.Context, req Request, run uint64) (resp *Response, live bool, err error) {
	over := func(why error) error { return &Error{Kind: Over, URL: req.URL, Err: why} }
	if err := w.place(ctx, req.Progress); err != nil {
		return nil, false, over(err)
	}
	defer func() { <-w.places }()
	if req.Allowed != nil && !req.Allowed() {
		return nil, false, over(errForbidden)
	}
	id, e := w.head.ids.Add(1), &errand{progress: req.Progress, packed: w.head.opt.Fetcher.newPacked(), done: make(chan struct{})}
	w.mu.Lock()
	if w.leaving {
		w.mu.Unlock()
		return nil, false, over(errors.Join(errNotGiven, e.packed.Close()))
	}
	w.turns[id] = e
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.drop(id)
	}()
	req.Header = w.head.opt.Fetcher.signed(&req)
	given := time.Now()
	select {
	case w.out <- &message{Turn: &turn{id, run, req}}:
	case <-w.ctx.Done():
		return nil, false, over(errNotGiven)
	case <-ctx.Done():
		return nil, false, &Error{Kind: Canceled, URL: req.URL, Err: context.Cause(ctx)}
	}
	if !w.wait(ctx, id, e) {
		return nil, false, &Error{Kind: w.head.loses(req.URL, true), URL: req.URL, Err: errLost}
	}
	resp, live, err = w.open(&req, e, given)
	if err != nil && ctx.Err() == nil && KindOf(err) == Canceled {
		err = over(errBroken)
	}
	return resp, live, err
}

// place waits until the hand can take another turn.
func (w *hand) place(ctx context.Context, progress func()) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case w.places <- struct{}{}:
			return nil
		case <-w.ctx.Done():
			return errNotGiven
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			if progress != nil {
				progress()
			}
		}
	}
}

// wait waits for the result, or until the hand is gone and its lease has surely ended. It reports
// whether there is a result.
func (w *hand) wait(ctx context.Context, id uint64, e *errand) bool {
	var cancel chan<- *message
	ended := ctx.Done()
	for {
		select {
		case <-e.done:
			return true
		case cancel <- &message{Cancel: id}:
			cancel = nil
		case <-ended:
			ended, cancel = nil, w.out
		case <-w.ctx.Done():
			if w.completed(e) {
				return true
			}
			w.outlast(e.progress)
			return false
		}
	}
}

// completed reports whether all of a result came before the hand was gone. No more comes after.
func (w *hand) completed(e *errand) bool {
	w.mu.Lock() // take may have it in hand
	defer w.mu.Unlock()
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// outlast waits until the hand, which is gone, can make no request any more.
func (w *hand) outlast(progress func()) {
	lease := w.head.opt.Terms.Lease
	for left := lease + margin(lease) - w.silent(); left > 0; left = lease + margin(lease) - w.silent() {
		if progress != nil {
			progress()
		}
		time.Sleep(min(left, time.Second))
	}
}

// open makes the response from what the hand has sent. If that is not right, open sends the hand
// away, and waits until the hand's lease has ended.
func (w *hand) open(req *Request, e *errand, given time.Time) (*Response, bool, error) {
	fail := func(kind Kind, err error) error { return &Error{Kind: kind, URL: req.URL, Err: err} }
	if e.failed != nil {
		return nil, false, fail(Local, errors.Join(e.failed, e.packed.Close()))
	}
	resp, a, err := w.unpack(req, e, given)
	switch {
	case err != nil:
		w.kick(fmt.Errorf("the result for %.200q: %w", req.URL, err))
		w.outlast(e.progress)
		return nil, false, fail(w.head.loses(req.URL, true), fmt.Errorf("hand %s sent a result that is not right: %w", w.name, err))
	case a.Kind != "":
		return nil, a.Live, fail(a.Kind, fmt.Errorf("hand %s: %.500s", w.name, a.Error))
	}
	w.head.loses(req.URL, false)
	w.pages.Add(1)
	w.bytes.Add(resp.ResponseBytes)
	return resp, a.Live, nil
}

func (w *hand) unpack(req *Request, e *errand, given time.Time) (*Response, *handAnswer, error) {
	var a handAnswer
	err := json.Unmarshal(e.head, &a)
	if err == nil {
		err = a.check(req.Addr.Addr(), time.Since(given))
	}
	if err == nil && a.Kind == "" {
		err = a.readHeader()
	}
	if err != nil || a.Kind != "" {
		return nil, &a, errors.Join(err, e.packed.Close())
	}
	a.Response.Start = given // by this machine's clock
	return a.Response, &a, w.head.opt.Fetcher.unpack(a.Response, e.packed)
}

// checkFound says what is wrong with what a hand has found in a page.
func checkFound(p *page.Page) error {
	const grown = len("\uFFFD") // JSON has this for each byte that is not UTF-8
	if len(p.Links) > page.MaxSitemapLinks || len(p.Text) > grown*page.MaxText || len(p.Title) > grown*page.MaxTitle {
		return errors.New("more was found than a page may have")
	}
	cuts := []string{page.CutLinks, page.CutBytes, page.CutSitemapLinks, page.CutSitemapBytes, page.CutLength, page.CutFields}
	for why, n := range p.Cut {
		if n < 0 || !slices.Contains(cuts, why) {
			return fmt.Errorf("%d links left out by %.50q", n, why)
		}
	}
	return nil
}
