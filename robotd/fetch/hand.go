package fetch

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/archive"
	"sheaf/internal/files"
	"sheaf/internal/loop"
	"sheaf/internal/page"
)

// HandOptions are the settings of a hand. All must be set.
type HandOptions struct {
	Head    string // host:port
	Pass    []byte // from InviteHand
	Version string // of the program
	Turns   int    // at once
	Fetcher func(*Terms) (*Fetcher, error)
	Log     *slog.Logger
}

// Times of a hand.
const (
	greetTime  = 20 * time.Second // for connecting, until the head has named its terms
	dialAgain  = time.Second      // after a lost connection; doubled, up to longest
	longest    = 30 * time.Second
	finishTime = 30 * time.Second // for the turns in hand when the hand is told to stop
)

// RunHand works as a hand of a head until ctx ends, which is no error. It connects again after a
// lost connection. It returns an error if the head refuses the hand or this machine's disk is full.
func RunHand(ctx context.Context, opt HandOptions) error {
	config, err := passTLS(opt.Pass)
	if err != nil {
		return err
	}
	for wait := dialAgain; ; wait = min(2*wait, longest) {
		began := time.Now()
		err := session(ctx, config, &opt)
		if refused, ok := errors.AsType[*refusal](err); ok {
			return refused
		}
		if ctx.Err() != nil {
			return nil
		}
		if files.IsFull(err) {
			return err
		}
		if time.Since(began) > longest {
			wait = dialAgain
		}
		opt.Log.WarnContext(ctx, "no connection to the head", "address", opt.Head, "again", wait, "err", err)
		if !loop.Pause(ctx, wait) {
			return nil
		}
	}
}

// work is one connection of a hand.
type work struct {
	conn    io.Closer
	line    *line
	fetcher *Fetcher
	terms   *Terms
	out     chan *message
	places  chan *archive.Deflater // one for each page that is searched and deflated; nil: not made yet
	until   atomic.Int64           // instant when the lease ends
	turns   sync.WaitGroup

	mu    sync.Mutex // guards all below
	over  bool       // no turn begins any more
	under map[uint64]*inHand
	runs  map[uint64]Session // that wait for their next page
}

// inHand is a turn that is being made.
type inHand struct {
	cancel context.CancelFunc
	moved  atomic.Bool // bytes have passed since the last ping
}

// session connects and works until the connection is lost or stop ends. Then it finishes its turns.
func session(stop context.Context, config *tls.Config, opt *HandOptions) error {
	w, err := greet(stop, config, opt)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(context.WithoutCancel(stop))
	defer end(nil)
	defer context.AfterFunc(stop, func() { time.AfterFunc(finishTime, func() { end(context.Cause(stop)) }) })()
	context.AfterFunc(ctx, func() { w.conn.Close() })
	opt.Log.InfoContext(ctx, "works for the head", "address", opt.Head)
	var working sync.WaitGroup
	working.Go(func() { end(w.read(ctx, end)) })
	working.Go(func() { _ = w.line.carry(w.out, ctx.Done()) }) // read gets the reason too, or ping sees the silence
	working.Go(func() { end(w.ping(ctx)) })
	select {
	case <-stop.Done():
		_ = w.send(ctx, &message{Leaving: true}) // an error means that ctx has ended
		<-ctx.Done()                             // the head ends the connection when the turns are finished
	case <-ctx.Done():
	}
	working.Wait()
	w.finish() // nothing of this connection goes on beside the next
	if stop.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

// greet connects and agrees on the terms.
func greet(ctx context.Context, config *tls.Config, opt *HandOptions) (w *work, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, greetTime, errors.New("the head does not answer"))
	defer cancel()
	w = &work{
		out: make(chan *message, 16), places: make(chan *archive.Deflater, runtime.GOMAXPROCS(0)),
		under: make(map[uint64]*inHand), runs: make(map[uint64]Session),
	}
	for range cap(w.places) {
		w.places <- nil
	}
	began := instant()
	conn, err := dial(ctx, config, opt)
	if err != nil {
		return nil, err
	}
	w.conn, w.line = conn, newLine(conn, conn)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	m, err := w.line.read()
	switch {
	case !stop():
		err = context.Cause(ctx)
	case err == nil && (m.Terms == nil || m.Terms.Lease < time.Millisecond):
		err = errors.New("the head does not answer as a head")
	case err == nil:
		w.terms = m.Terms
		w.until.Store(began + int64(m.Terms.Lease))
		w.fetcher, err = opt.Fetcher(m.Terms)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return w, nil
}

// dial asks the head for work, and returns the connection that carries the messages.
func dial(ctx context.Context, config *tls.Config, opt *HandOptions) (io.ReadWriteCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+opt.Head+path, nil)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"Connection": "Upgrade", "Upgrade": protocol, versionField: opt.Version, turnsField: strconv.Itoa(opt.Turns),
	} {
		req.Header.Set(name, value)
	}
	resp, err := (&http.Transport{TLSClientConfig: config, DisableKeepAlives: true}).RoundTrip(req) // without a proxy
	if err != nil {
		return nil, err
	}
	if conn, ok := resp.Body.(io.ReadWriteCloser); ok && resp.StatusCode == http.StatusSwitchingProtocols {
		return conn, nil
	}
	defer resp.Body.Close()
	why, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if resp.StatusCode == http.StatusForbidden {
		return nil, refuse("%s", bytes.TrimSpace(why))
	}
	return nil, errors.Join(fmt.Errorf("the head answers %s: %q", resp.Status, why), err)
}

// finish waits for the turns that have begun. No more begin.
func (w *work) finish() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	w.turns.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, run := range w.runs {
		run.Close()
	}
}

func (w *work) send(ctx context.Context, m *message) error {
	select {
	case w.out <- m:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errSilent is why a hand stops by itself.
var errSilent = errors.New("the head has not answered for so long that it takes this hand for lost")

// ping asks for a longer lease, again and again, until the lease ends. The lease counts from the
// time when an answered ping was sent.
func (w *work) ping(ctx context.Context) error {
	for {
		now := instant()
		left := time.Duration(w.until.Load() - now)
		if left <= 0 {
			return errSilent
		}
		p := &ping{Sent: now}
		w.mu.Lock()
		for id, t := range w.under {
			if t.moved.Swap(false) {
				p.Moved = append(p.Moved, id)
			}
		}
		w.mu.Unlock()
		select {
		case w.out <- &message{Ping: p}:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(left): // the connection takes nothing
			return errSilent
		}
		if !loop.Pause(ctx, min(left, w.terms.Lease/4)) {
			return context.Cause(ctx)
		}
	}
}

// may reports whether the lease allows a request now.
func (w *work) may() bool { return instant() < w.until.Load() }

func (w *work) read(ctx context.Context, end context.CancelCauseFunc) error {
	for {
		m, err := w.line.read()
		if err != nil {
			return err
		}
		switch {
		case m.End != nil && m.End.Refused:
			return refuse("%s", m.End.Why)
		case m.End != nil:
			return fmt.Errorf("the head has ended the connection: %s", m.End.Why)
		case m.Pong != 0:
			w.until.Store(max(w.until.Load(), m.Pong+int64(w.terms.Lease)))
		case m.Turn != nil:
			w.begin(ctx, end, m.Turn)
		case m.Cancel != 0:
			w.mu.Lock()
			if t := w.under[m.Cancel]; t != nil {
				t.cancel()
			}
			w.mu.Unlock()
		case m.Close != 0:
			w.mu.Lock()
			if run := w.runs[m.Close]; run != nil {
				run.Close()
				delete(w.runs, m.Close)
			}
			w.mu.Unlock()
		}
	}
}

// begin begins a turn. It ignores a turn whose ID is under way.
func (w *work) begin(connected context.Context, end context.CancelCauseFunc, t *turn) {
	ctx, cancel := context.WithCancel(connected)
	in := &inHand{cancel: cancel}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.under[t.ID] != nil {
		cancel()
		return
	}
	w.under[t.ID] = in
	w.turns.Go(func() {
		defer cancel()
		if err := w.do(ctx, connected, t, in); err != nil {
			end(err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.under, t.ID)
	})
}

// do makes a turn, which the head may cancel, and sends its result. An error ends the connection:
// this machine has failed, or nothing can be sent.
func (w *work) do(ctx, connected context.Context, t *turn, in *inHand) error {
	t.Allowed, t.Progress = w.may, func() { in.moved.Store(true) }
	began := time.Now()
	resp, live, err := w.get(ctx, t.Run, t.Request)
	if files.IsFull(err) {
		return err
	}
	packed := w.fetcher.newPacked()
	defer packed.Close()
	if err == nil {
		defer resp.Close()
		a := answerOf(resp)
		a.Live = live
		if err = a.check(t.Addr.Addr(), time.Since(began)); err == nil {
			if err := w.pack(packed, t, resp, a); err != nil {
				return err
			}
			return w.deliver(connected, t.ID, a, packed)
		}
		err = &Error{Kind: Protocol, URL: t.URL, Err: err}
	}
	return w.deliver(connected, t.ID, &handAnswer{Kind: KindOf(err), Error: errors.Unwrap(err).Error(), Live: live}, packed)
}

// get fetches a page, over the connection of its run if it has one.
func (w *work) get(ctx context.Context, id uint64, req Request) (*Response, bool, error) {
	if id == 0 {
		resp, err := w.fetcher.Get(ctx, req)
		return resp, false, err
	}
	w.mu.Lock()
	run := w.runs[id]
	delete(w.runs, id)
	w.mu.Unlock()
	if run == nil {
		run = w.fetcher.Run()
	}
	resp, err := run.Get(ctx, req)
	if err != nil || !run.Live() {
		run.Close()
		return resp, false, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[id] = run
	return resp, true, nil
}

// pack searches a page for an answer, and deflates the page.
func (w *work) pack(to io.Writer, t *turn, resp *Response, a *handAnswer) (err error) {
	deflate := <-w.places
	defer func() { w.places <- deflate }()
	if deflate == nil {
		if deflate, err = archive.NewDeflater(w.terms.Level); err != nil {
			return err
		}
	}
	if t.Text > 0 && resp.IsPage() {
		body, err := resp.Bytes(page.MaxBytes + 1)
		if err != nil {
			return err
		}
		a.Response.Found, _ = resp.Search(body, t.URL, t.Text) // the head finds out what is wrong with the URL
	}
	body := resp.Body()
	defer body.Close()
	return deflate.Deflate(to, resp.HTTP, body)
}

// deliver sends a result in parts. It leaves out what was found if that is too long: the head then
// searches the page itself.
func (w *work) deliver(ctx context.Context, id uint64, a *handAnswer, packed *packedBody) error {
	text, err := json.Marshal(a)
	if err == nil && len(text) > maxAnswer && a.Response != nil {
		a.Response.Found = nil
		text, err = json.Marshal(a)
	}
	if err != nil {
		return fmt.Errorf("result: %w", err)
	}
	all := io.MultiReader(bytes.NewReader(text), packed.body.open())
	answer, left := len(text), int64(len(text))+packed.body.size
	for left > 0 {
		data := make([]byte, min(left, partSize))
		if _, err := io.ReadFull(all, data); err != nil {
			return fmt.Errorf("result: %w", err)
		}
		left -= int64(len(data))
		p := &part{ID: id, Answer: min(answer, len(data)), Last: left == 0}
		answer -= p.Answer
		if err := w.send(ctx, &message{Part: p, data: data}); err != nil {
			return err
		}
	}
	return nil
}
