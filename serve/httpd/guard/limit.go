package guard

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"sheaf/internal/cache"
	"sheaf/internal/peer"
	"sheaf/internal/problem"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

const (
	accountSearches = 4 // searches under way of one account

	// Searches for a list of URLs and hosts, which count as searches too. A list of
	// records.MaxTargets lines takes some 30 MB of memory while it is read and searched for.
	accountLists, allLists = 2, 4

	// Requests that wait for changes. Each looks for them twice a second.
	accountPolls, allPolls = 16, 1000

	// Long bodies that are being received. Such a request has no other place meanwhile.
	accountBodies, allBodies = 4, 32

	// Long answers that are being sent from temporary files. Such a request has no other place
	// meanwhile.
	accountAnswers, allAnswers = 16, 256

	// retry is the time after which a request that was turned away may be sent again.
	retry = 5 * time.Second
)

func allSearches() int { return 4 * max(2, runtime.GOMAXPROCS(0)) }

// Limits bound how many costly requests are under way: of one account, of one neighbourhood of
// addresses and in all. Anonymous requests count by network address. A request keeps its place
// while the machine works for it: not while its body comes, nor while its answer is sent. So a slow
// client delays only itself. The methods, and each leave that they return, may be called
// concurrently. A leave may be called again.
type Limits struct {
	searches *Gate
	Lists    *Gate // of requests that parse a list, and search or not
	Polls    *Gate // of requests that wait for changes
	Bodies   *Gate // of requests whose long body is received
	Answers  *Gate // of long answers, which take room on the disk however slowly they are read
}

// NewLimits returns limits that all handlers of a service must share.
func NewLimits() *Limits {
	return &Limits{
		searches: newGate(accountSearches, allSearches(), "searches", "searches"),
		Lists:    newGate(accountLists, allLists, "searches for a list", "lists"),
		Polls:    newGate(accountPolls, allPolls, "requests that wait for changes", "waits"),
		Bodies:   newGate(accountBodies, allBodies, "long lists on their way", "bodies"),
		Answers:  newGate(accountAnswers, allAnswers, "long answers on their way", "answers"),
	}
}

// Search counts a search until leave is called. It fails with the problem to answer. Call it after
// receiving the body, which may be a list, and before parsing it.
func (l *Limits) Search(r *http.Request, a *account.Account) (leave func(), err error) {
	if r.Method != http.MethodPost {
		return l.searches.Enter(r, a)
	}
	leaveLists, err := l.Lists.Enter(r, a)
	if err != nil {
		return nil, err
	}
	leaveSearches, err := l.searches.Enter(r, a)
	if err != nil {
		leaveLists()
		return nil, err
	}
	return func() { leaveSearches(); leaveLists() }, nil
}

// Gate lets a bounded number of requests of one kind in.
type Gate struct {
	perAccount, total int
	what              string // name of the requests, in the plural
	reason            string // of a problem, for programs

	mu     sync.Mutex // guards the following
	by     map[string]int
	around map[netip.Prefix]int // by neighbourhood; see peer.Neighbourhood
	all    int
}

func newGate(perAccount, total int, what, reason string) *Gate {
	return &Gate{perAccount: perAccount, total: total, what: what, reason: reason, by: make(map[string]int), around: make(map[netip.Prefix]int)}
}

// Enter lets a request in until leave is called, or fails with the problem to answer. A
// neighbourhood gets half of the places at most. The last quarter is for accounts without a place,
// so that a few accounts cannot fill all.
func (g *Gate) Enter(r *http.Request, a *account.Account) (leave func(), err error) {
	client := peer.Addr(r.RemoteAddr)
	payer, around := a.Name, peer.Neighbourhood(client)
	if payer == account.Anonymous {
		payer += " " + peer.Network(client).String()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch mine := g.by[payer]; {
	case mine >= g.perAccount, mine > 0 && g.all >= g.total-g.total/4:
		return nil, Busy(http.StatusTooManyRequests, "too_many_"+g.reason,
			fmt.Sprintf("this account has %d %s under way; wait for one of them", mine, g.what))
	case around.IsValid() && g.around[around] >= g.total/2:
		return nil, Busy(http.StatusTooManyRequests, "too_many_"+g.reason,
			fmt.Sprintf("clients of %s have %d %s under way; wait for one of them", around, g.around[around], g.what))
	case g.all >= g.total:
		return nil, Busy(http.StatusServiceUnavailable, g.reason+"_busy", fmt.Sprintf("as many %s are under way as the service does at once", g.what))
	}
	g.by[payer]++
	g.around[around]++
	g.all++
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.all--
		if g.by[payer]--; g.by[payer] == 0 {
			delete(g.by, payer)
		}
		if g.around[around]--; g.around[around] == 0 {
			delete(g.around, around)
		}
	}), nil
}

// Busy returns a problem that asks to come again in a few seconds.
func Busy(status int, reason, detail string) error {
	p := problem.New(status, reason, detail)
	p.Next = time.Now().Add(retry).UTC().Format(time.RFC3339)
	return p
}

// Place is the place of a search in Limits. The handler leaves it before the answer is sent. A
// build that the handler has begun holds the place to the build's end, even if the client leaves.
// Otherwise clients that leave at once would have any number of builds under way. Its methods may
// be called concurrently.
type Place struct {
	Leave func() // ends the handler's use of the place; it may be called again

	free  func()
	mu    sync.Mutex // guards users
	users int        // the handler, and what it builds
}

// NewPlace returns a place that calls free when nobody needs it any more.
func NewPlace(free func()) *Place {
	p := &Place{free: free, users: 1}
	p.Leave = sync.OnceFunc(p.end)
	return p
}

func (p *Place) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users == 0 {
		return false
	}
	p.users++
	return true
}

func (p *Place) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users--; p.users == 0 {
		p.free()
	}
}

// InPlace returns build as a computation for cache.Group that holds the place while it runs. It
// fails with cache.ErrLeft if nobody has the place any more when it begins.
func InPlace[T any](p *Place, build func(context.Context) (T, error)) func(context.Context) (T, error) {
	return func(ctx context.Context) (built T, err error) {
		if !p.begin() {
			return built, cache.ErrLeft
		}
		defer p.end()
		return build(ctx)
	}
}

const (
	// SpoolMemory is the length, in bytes, up to which an answer is held in memory. A longer answer
	// is in a temporary file.
	SpoolMemory = 256 << 10

	// worthGzip is the length of the first part, in bytes, from which on an answer is compressed.
	worthGzip = 4 << 10
)

// Spool takes a whole answer before any of it is sent, or a whole body before it is read. So an
// answer has its length, its ETag and its next cursor, and an error can be answered in its place.
// The sources of an answer need not be held while a client reads. A Spool must be closed, and is
// not for concurrent use.
type Spool struct {
	gzip       bool // compress, if it is worth it
	begun      bool
	compressed bool
	zip        *gzip.Writer // nil: not compressed, or finished
	to         *library.TempFile
	leave      func() // see NewSpool; nil: not entered
}

// NewSpool returns a Spool. If gzip is set, the Spool compresses an answer that is worth it. Unless
// enter is nil, the Spool calls enter before it begins a file, and leave at Close.
func NewSpool(gzip bool, enter func() (leave func(), err error)) *Spool {
	s := &Spool{gzip: gzip}
	s.to = library.NewTempFile(SpoolMemory, func(int64) (err error) {
		if enter != nil && s.leave == nil {
			s.leave, err = enter()
		}
		return err
	})
	return s
}

// Spool returns a Spool for the answer to a request. While it has a file, it counts in
// Limits.Answers.
func (l *Limits) Spool(r *http.Request, a *account.Account, gzip bool) *Spool {
	return NewSpool(gzip, func() (func(), error) { return l.Answers.Enter(r, a) })
}

// Write adds a part of the answer. The first part's length decides whether the answer is worth
// compressing.
func (s *Spool) Write(p []byte) (n int, err error) {
	if !s.begun && s.gzip && len(p) >= worthGzip {
		if s.zip, err = gzip.NewWriterLevel(s.to, gzip.BestSpeed); err != nil {
			return 0, err
		}
		s.compressed = true
	}
	s.begun = true
	if s.zip != nil {
		return s.zip.Write(p)
	}
	return s.to.Write(p)
}

// Finish ends the writing and frees the compressor's memory, most of a MiB, before a client reads.
func (s *Spool) Finish() error {
	if s.zip == nil {
		return nil
	}
	err := s.zip.Close()
	s.zip = nil
	return err
}

// Send answers with what was written. A client that reads slowly costs up to SpoolMemory, or a
// file.
func (s *Spool) Send(w http.ResponseWriter, r *http.Request, contentType string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("ETag", `"`+s.to.SHA256()[:32]+`"`)
	if s.to.InMemory() {
		w = &Answer{ResponseWriter: w} // which has buffers; the kernel sends a file
	}
	http.ServeContent(w, r, "", time.Time{}, s.to.Content())
}

// Compressed reports whether what was written is in gzip.
func (s *Spool) Compressed() bool { return s.compressed }

// Content returns a reader of what was written.
func (s *Spool) Content() io.ReadSeeker { return s.to.Content() }

// Close removes the temporary file.
func (s *Spool) Close() error {
	if s.leave != nil {
		defer s.leave()
	}
	return s.to.Close()
}
