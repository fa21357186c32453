package fetch

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/archive"
	"sheaf/robotd/config"
	"sheaf/robotd/polite"
)

// HeadOptions are the settings of a Head.
type HeadOptions struct {
	Dir     string // for its authority
	Local   bool   // the head's own fetcher is one of the hands
	Fetcher *Fetcher
	Version string // of the program, which hands must have too
	Terms   Terms  // without a lease: LeaseTime
	Log     *slog.Logger
}

// Head gets pages by its hands; while it has no hand, by its own fetcher. It may be used
// concurrently.
type Head struct {
	opt     HeadOptions
	ca      *authority
	server  *http.Server
	ids     atomic.Uint64 // the last one that was used for a turn or a run
	refused atomic.Int64  // results that belong to no turn

	working sync.WaitGroup // the connections of hands

	mu     sync.Mutex // guards all below
	closed bool
	hands  map[string]*hand
	used   bool           // the file of outFile is there
	lost   map[string]int // by URL: how many hands were lost with the page
}

// mostLost is how many hands may be lost with a page before that counts as a failure of the page.
const mostLost = 3

// loses notes whether a hand was lost while it had a page. It returns the kind of the turn's error.
func (h *Head) loses(url string, lost bool) Kind {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost[url]++; lost && h.lost[url] < mostLost {
		return Over
	}
	delete(h.lost, url)
	return Protocol
}

// outFile is in the folder while a hand may have turns. It holds the hands' lease.
const outFile = "out"

// AwaitHands waits, if a head was killed while hands may have had turns, until none of them can
// make a request any more.
func AwaitHands(dir string, log *slog.Logger) error {
	path := filepath.Join(dir, outFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	lease, err := time.ParseDuration(string(text))
	if err != nil {
		lease = LeaseTime // a loss of power may have left the file empty
	}
	wait := lease + margin(lease)
	log.Info("the robot was killed while its hands had turns; waiting until they have surely stopped", "after", wait)
	time.Sleep(wait)
	return os.Remove(path)
}

// NewHead returns a head without hands.
func NewHead(opt HeadOptions) (*Head, error) {
	ca, err := openAuthority(opt.Dir)
	if err != nil {
		return nil, err
	}
	config, err := ca.tls()
	if err != nil {
		return nil, err
	}
	opt.Terms.Lease = cmp.Or(opt.Terms.Lease, LeaseTime)
	h := &Head{opt: opt, ca: ca, hands: make(map[string]*hand), lost: make(map[string]int)}
	h.ids.Store(rand.Uint64() >> 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+path, h.work)
	h.server = &http.Server{
		Handler: mux, TLSConfig: config, Protocols: new(http.Protocols), ReadHeaderTimeout: askTime, IdleTimeout: askTime, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(opt.Log.Handler(), slog.LevelDebug),
	}
	h.server.Protocols.SetHTTP1(true)
	return h, nil
}

// Times for connections of hands.
const (
	askTime  = 10 * time.Second // for proving who it is, and asking
	partTime = time.Second      // for hearing why the head ends the connection
)

// Listen waits for hands at an address, host:port, until Close. It returns the address.
func (h *Head) Listen(address string) (net.Addr, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	go h.server.ServeTLS(l, "", "") // ends with Close
	return l.Addr(), nil
}

// Close lets go of the hands. If one of them still has a turn, the next start waits (AwaitHands).
func (h *Head) Close() error {
	busy := false
	h.mu.Lock()
	h.closed = true
	for _, w := range h.hands {
		busy = busy || len(w.places) > 0
		w.kick(errors.New("the robot ends"))
	}
	used := h.used
	h.mu.Unlock()
	err := h.server.Close()
	h.working.Wait()
	if !used || busy {
		return err
	}
	return errors.Join(err, os.Remove(filepath.Join(h.opt.Dir, outFile)))
}

// work answers a request for work. A hand that may work here keeps the connection until one of the
// two ends it.
func (h *Head) work(rw http.ResponseWriter, r *http.Request) {
	w, err := h.examine(r)
	if err != nil {
		h.opt.Log.WarnContext(r.Context(), "hand refused", "remote", r.RemoteAddr, "err", err)
		code := http.StatusBadRequest
		if _, ok := errors.AsType[*refusal](err); ok {
			code = http.StatusForbidden
		}
		http.Error(rw, err.Error(), code)
		return
	}
	conn, buffered, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		h.opt.Log.WarnContext(r.Context(), "hand refused", "remote", r.RemoteAddr, "err", err)
		return
	}
	defer conn.Close()
	to := newLine(buffered.Reader, conn)
	if err = h.admit(w, conn, to); err == nil {
		defer h.working.Done()
		h.opt.Log.InfoContext(r.Context(), "hand has come", "hand", w.name, "remote", w.remote)
		err = h.oversee(w, conn, to)
	}
	if err == errLeft {
		h.opt.Log.InfoContext(r.Context(), "hand has finished its turns and left", "hand", w.name)
		return
	}
	h.opt.Log.WarnContext(r.Context(), "hand has gone", "hand", w.name, "err", err)
}

// examine returns the hand that makes a request, if it may work here.
func (h *Head) examine(r *http.Request) (*hand, error) {
	cert, version := r.TLS.PeerCertificates[0], r.Header.Get(versionField)
	turns, err := strconv.Atoi(r.Header.Get(turnsField))
	switch {
	case !h.ca.may(cert):
		return nil, refuse("this hand has no right here: it was removed, or invited again; robotd hand invite, at the head, makes another pass")
	case version != h.opt.Version:
		return nil, refuse("the head's program is version %s, and this hand's %.100q: install %[1]s here", h.opt.Version, version)
	case err != nil || turns < 1 || r.Header.Get("Upgrade") != protocol:
		return nil, errors.New("this is no request of a hand")
	}
	return newHand(h, cert, r.RemoteAddr, version, turns), nil
}

// admit greets a hand and takes it in. If another hand has its name, the other hand is sent away.
// After admit without an error, the caller must call h.working.Done.
func (h *Head) admit(w *hand, conn net.Conn, to *line) error {
	_ = conn.SetWriteDeadline(time.Now().Add(askTime))
	switching := &http.Response{
		StatusCode: http.StatusSwitchingProtocols, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {protocol}},
	}
	if err := errors.Join(switching.Write(conn), to.write(&message{Terms: &h.opt.Terms}, false)); err != nil {
		return err
	}
	_ = conn.SetWriteDeadline(time.Time{})
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return errors.New("the robot ends")
	}
	if !h.used {
		if err := config.Replace(filepath.Join(h.opt.Dir, outFile), []byte(h.opt.Terms.Lease.String()), 0o644); err != nil {
			return err
		}
		h.used = true
	}
	if old := h.hands[w.name]; old != nil {
		old.kick(errors.New("another hand has come with the same pass"))
	}
	h.hands[w.name] = w
	h.working.Add(1)
	return nil
}

// oversee works with a hand until one of the two goes, and returns why.
func (h *Head) oversee(w *hand, conn net.Conn, to *line) error {
	var carrying, reading sync.WaitGroup
	carrying.Go(func() {
		if err := to.carry(w.out, w.ctx.Done()); err != nil {
			w.kick(err)
		}
	})
	reading.Go(func() { w.kick(w.read(to)) })
	ticker := time.NewTicker(h.opt.Terms.Lease / 4)
	defer ticker.Stop()
	for w.ctx.Err() == nil {
		select {
		case <-w.ctx.Done():
		case <-ticker.C:
			switch {
			case !h.ca.may(w.cert):
				w.kick(refuse("the right of hand %s has ended", w.name))
			case w.silent() > h.opt.Terms.Lease:
				w.kick(fmt.Errorf("hand %s is silent", w.name))
			}
		}
	}
	h.mu.Lock()
	if h.hands[w.name] == w {
		delete(h.hands, w.name)
	}
	h.mu.Unlock()
	w.end()
	err := context.Cause(w.ctx)
	_ = conn.SetDeadline(time.Now().Add(partTime))
	carrying.Wait()
	if err != errLeft {
		refused := (*refusal)(nil)
		_ = to.write(&message{End: &end{err.Error(), errors.As(err, &refused)}}, false) // the hand may be the one that has gone
	}
	_ = conn.(*tls.Conn).CloseWrite()
	reading.Wait()
	_, _ = io.Copy(io.Discard, conn) // otherwise the system would drop the message with what was not read
	return err
}

// choose returns the hand to which an address belongs; nil: the head itself.
func (h *Head) choose(at netip.AddrPort) (chosen *hand) {
	if !at.IsValid() {
		return nil
	}
	addr := at.Addr()
	h.mu.Lock()
	defer h.mu.Unlock()
	most := uint64(0)
	if h.opt.Local {
		most = weight("", addr)
	}
	for name, w := range h.hands {
		if n := weight(name, addr); n >= most && !w.isLeaving() {
			chosen, most = w, n
		}
	}
	return chosen
}

// weight is the weight of a hand for an address: the hand with the highest weight has the address.
func weight(name string, addr netip.Addr) uint64 {
	sum := sha256.Sum256(append(append([]byte(name), 0), addr.AsSlice()...))
	return binary.BigEndian.Uint64(sum[:])
}

// Get fetches one page by the hand that has its address.
func (h *Head) Get(ctx context.Context, req Request) (*Response, error) {
	if w := h.choose(req.Addr); w != nil {
		resp, _, err := w.get(ctx, req, 0)
		return resp, err
	}
	return h.opt.Fetcher.Get(ctx, req)
}

// Run begins a run. All its pages are fetched by one hand.
func (h *Head) Run() Session { return &run{head: h, id: h.ids.Add(1)} }

// run is a run of a hand, or of the head's own fetcher.
type run struct {
	head *Head
	id   uint64
	own  Session // of the head's fetcher; nil: there is none
	hand *hand   // nil: it is not chosen yet, or own fetches
	live bool
}

func (r *run) Get(ctx context.Context, req Request) (resp *Response, err error) {
	if r.hand == nil && r.own == nil {
		if r.hand = r.head.choose(req.Addr); r.hand == nil {
			r.own = r.head.opt.Fetcher.Run()
		}
	}
	if r.hand == nil {
		return r.own.Get(ctx, req)
	}
	resp, r.live, err = r.hand.get(ctx, req, r.id)
	return resp, err
}

func (r *run) Live() bool { return r.live || r.own != nil && r.own.Live() }

func (r *run) Close() {
	switch {
	case r.own != nil:
		r.own.Close()
	case r.live:
		r.live = false
		r.hand.send(&message{Close: r.id})
	}
}

// Hand is another machine of the site that fetches for this robot.
type Hand struct {
	Name    string    `json:"hand"`
	Address string    `json:"address"`
	Version string    `json:"version"`
	Since   time.Time `json:"since"` // when it connected
	Turns   int       `json:"turns"` // that it has now
	Most    int       `json:"most"`  // that it takes at once
	Pages   int64     `json:"pages"` // answers since it connected
	Bytes   int64     `json:"bytes"` // of these answers, as transferred
}

// Hands returns the hands by name, and what the operator should know of them.
func (h *Head) Hands() (all []Hand, warnings []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.hands {
		all = append(all, Hand{
			Name: w.name, Address: w.remote, Version: w.version, Since: w.since, Turns: len(w.places), Most: cap(w.places),
			Pages: w.pages.Load(), Bytes: w.bytes.Load(),
		})
	}
	slices.SortFunc(all, func(a, b Hand) int { return cmp.Compare(a.Name, b.Name) })
	if n := h.refused.Load(); n > 0 {
		warnings = append(warnings, fmt.Sprintf("%d results of hands belonged to no turn that was out, and were refused", n))
	}
	return all, warnings
}

var crlf2 = []byte("\r\n\r\n")

// check says what is wrong with an answer that a hand has sent for a turn. since is how long ago
// the hand got the turn.
func (a *handAnswer) check(addr netip.Addr, since time.Duration) error {
	certificates := []string{"", CertExpired, CertHost, CertSelfSigned, CertIncomplete, CertAuthority, CertInvalid}
	r := a.Response
	switch {
	case a.Kind == "" && r == nil:
		return errors.New("neither a response nor an error")
	case a.Kind != "":
		if !slices.Contains(kinds, a.Kind) {
			return fmt.Errorf("an error of kind %.50q", a.Kind)
		}
		return nil
	case r.Status < 100 || r.Status > 999:
		return fmt.Errorf("status %d", r.Status)
	case len(r.HTTP) > maxHeader || !bytes.HasSuffix(r.HTTP, crlf2):
		return errors.New("the header is too long, or does not end with an empty line")
	case !slices.Contains([]string{"", archive.TruncatedLength, archive.TruncatedTime, archive.TruncatedDisconnect}, r.Truncated):
		return fmt.Errorf("truncated by %.50q", r.Truncated)
	case !slices.Contains(certificates, r.Certificate):
		return fmt.Errorf("certificate %.50q", r.Certificate)
	case r.IP.IsValid() && r.IP != addr:
		return fmt.Errorf("an answer of %v for a request to %v", r.IP, addr)
	case r.Took < 0 || r.Took > since || r.Wait < 0 || r.Wait > r.Took:
		return fmt.Errorf("%v and %v for a request that took %v at most", r.Took, r.Wait, since)
	case r.RequestBytes < 0 || r.ResponseBytes < 0:
		return errors.New("less than no bytes")
	case r.Found != nil:
		return checkFound(r.Found)
	}
	return nil
}

// instant is the clock of leases, in nanoseconds.
func instant() int64 { return int64(polite.Sent()) }
