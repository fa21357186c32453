package upkeep

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"syscall"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/internal/db"
	"sheaf/internal/lease"
	"sheaf/internal/loop"
	"sheaf/internal/wire"
)

// ScrubberOptions are the dependencies and settings of a Scrubber. All fields are required, except
// Copy.
type ScrubberOptions struct {
	Catalog *catalog.Catalog
	Store   store.Store
	// Copy opens the second copy of the store; nil: there is none. After a failure it is called
	// again.
	Copy   func(context.Context) (store.Store, error)
	DB     *sql.DB
	Every  time.Duration // time in which the whole store is verified once; 0: never
	Rate   int64         // limit for reading, in bytes a second
	Update time.Duration // between two updates of the copy
	Leases lease.Locker
	Log    *slog.Logger
}

// Scrubber reads the whole store again and again, and verifies it as a deep Fsck does. It keeps a
// second copy up to date and verifies that, too. If an object is damaged in the store or in the
// copy, it is replaced by the other's object.
//
// Segments are read in the order of their sequence numbers, evenly spread over a round. Once a day
// the Scrubber checks the catalog, and that each object is there. It reports damage of the catalog
// and does not heal it, since a running service has read the catalog; use Repair.
type Scrubber struct {
	opt ScrubberOptions

	copied store.Store // nil: there is none, or it could not be opened yet
	state  Scrub
}

// NewScrubber returns a Scrubber. It works on its own only while Run runs.
func NewScrubber(opt ScrubberOptions) *Scrubber { return &Scrubber{opt: opt} }

const (
	scrubFirst = 10 * time.Minute // from the start to the first turn, as firstCollection
	scrubTurn  = time.Minute      // between two turns, and the limit for one
	scrubCheck = 24 * time.Hour   // between two checks of the catalog
)

// Run scrubs until ctx ends, whenever this process has the lease. A failure is logged, and the work
// repeated at the next turn. Run returns nil.
func (s *Scrubber) Run(ctx context.Context) error {
	every := s.opt.Every
	if every == 0 {
		every = s.opt.Update
	}
	if every == 0 {
		return nil
	}
	return hold(ctx, s.opt.Leases, leaseScrub, scrubTurn, s.opt.Log, func(ctx context.Context) error {
		for wait := min(scrubFirst, every); ; wait = min(scrubTurn, every) {
			if err := loop.Sleep(ctx, wait); err != nil {
				return err
			}
			if err := s.Turn(ctx); err != nil && ctx.Err() == nil {
				s.opt.Log.ErrorContext(ctx, "scrub: failed, and will be repeated", "err", err)
			}
		}
	})
}

// Turn does what is due now. One process at a time may call it.
func (s *Scrubber) Turn(ctx context.Context) (err error) {
	if s.state, err = ReadScrub(ctx, s.opt.DB); err != nil {
		return err
	}
	if s.state.Began.IsZero() {
		s.state.Began = time.Now()
	}
	err = errors.Join(s.update(ctx), s.check(ctx), s.verify(ctx))
	return errors.Join(err, s.state.write(ctx, s.opt.DB))
}

// update brings the copy up to date, if it is time to. If an object has another size in the copy,
// one of the two is damaged, and update heals it.
func (s *Scrubber) update(ctx context.Context) error {
	if s.opt.Copy == nil || time.Since(s.state.Copied) < s.opt.Update {
		return nil
	}
	if s.copied == nil {
		copied, err := s.opt.Copy(ctx)
		if err != nil {
			return fmt.Errorf("the copy: %w", err)
		}
		s.copied = copied
	}
	began, done := time.Now(), new(Copied)
	err := done.everything(ctx, s.copied, s.opt.Store)
	if errors.Is(err, errNoCatalog) { // not an error if nothing was ever published
		if last, other := lastVersion(ctx, s.copied); last == "" && other == nil {
			s.state.Copied = began
			return nil
		}
	}
	if err != nil {
		return err
	}
	if len(done.differ) > 0 {
		differ := make(map[string]bool)
		for _, key := range done.differ {
			differ[key] = true
		}
		healed := s.state.Healed
		if err := s.restore(ctx, differ); err != nil {
			return err
		}
		if s.state.Healed-healed < int64(len(done.differ)) {
			return done.agree()
		}
	}
	s.opt.Log.InfoContext(ctx, "scrub: the copy is up to date", "stored", done.Objects, "bytes", done.Bytes)
	s.state.Copied = began
	return nil
}

// check compares the catalog with the stored objects, if it is time to. It restores missing objects
// from the copy. If it finds no problem, it deletes objects from the copy that the store does not
// have any more.
func (s *Scrubber) check(ctx context.Context) error {
	if s.opt.Every == 0 || time.Since(s.state.Checked) < scrubCheck {
		return nil
	}
	began := time.Now()
	missing := make(map[string]bool)
	report, err := fsck(ctx, s.opt.Store, false, func(key string, named bool) { missing[key] = missing[key] || named })
	if err != nil {
		return err
	}
	for _, p := range report.Problems {
		s.opt.Log.ErrorContext(ctx, "scrub: the catalog and the store do not agree", "object", p.Where, "detail", p.Detail)
	}
	s.state.Checked, s.state.Problems = began, report.Found
	switch {
	case s.copied == nil:
	case report.OK():
		done := new(Copied)
		if err := done.prune(ctx, s.copied, s.opt.Store); err != nil {
			return err
		}
	default:
		healed := s.state.Healed
		if err := s.restore(ctx, missing); err != nil || s.state.Healed == healed {
			return err
		}
		if report, err = fsck(ctx, s.opt.Store, false, nil); err != nil {
			return err
		}
		s.state.Problems = report.Found
	}
	return nil
}

// restore verifies and heals the published entries in objects. The map has the keys of objects that
// may be damaged or missing.
func (s *Scrubber) restore(ctx context.Context, objects map[string]bool) error {
	snap, err := s.opt.Catalog.Pin(ctx)
	if err != nil {
		return err
	}
	defer snap.Release()
	for e, err := range snap.Entries(ctx, "", "") {
		if err != nil {
			return err
		}
		if _, beside := e.Views[wire.ViewOthers]; objects[e.Object] || beside && objects[wire.OthersKey(wire.BatchID(e.Batch))] {
			if err := s.entry(ctx, snap, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// verify verifies the segments that are due by now. After scrubTurn it begins no further segment.
func (s *Scrubber) verify(ctx context.Context) error {
	if s.opt.Every == 0 {
		return nil
	}
	snap, err := s.opt.Catalog.Pin(ctx)
	if err != nil {
		return err
	}
	defer snap.Release()
	began, last := time.Now(), snap.Last()
	if began.Sub(s.state.Began) >= s.opt.Every && s.state.Place >= s.state.Last && s.state.Last > 0 {
		s.state.Ended, s.state.Began, s.state.Place = began, began, 0
	}
	s.state.Last = last
	if s.state.Place < last {
		for change, err := range snap.Since(ctx, s.state.Place) {
			due := s.state.Began.Add(time.Duration(float64(s.opt.Every) * float64(change.Seq) / float64(last)))
			if err != nil || time.Until(due) > 0 || time.Since(began) > scrubTurn {
				if err != nil {
					return err
				}
				break
			}
			if change.Entry != nil {
				if err := s.entry(ctx, snap, *change.Entry); err != nil {
					return err
				}
				if err := loop.Sleep(ctx, time.Duration(float64(change.Entry.Length)/float64(s.opt.Rate)*float64(time.Second))); err != nil {
					return err
				}
			}
			s.state.Place = change.Seq
		}
	}
	return nil
}

// entry verifies and heals a segment, and the objects beside it, in the store and in the copy. It
// returns an error if a store cannot be read now.
func (s *Scrubber) entry(ctx context.Context, snap *catalog.Snapshot, e catalog.SegmentEntry) error {
	lost, err := s.part(ctx, snap, e, part{e.Object, verifySegment, func(o catalog.SegmentEntry) bool { return o.Object == e.Object }})
	if _, others := e.Views[wire.ViewOthers]; err == nil && others {
		var lostOthers bool
		key := wire.OthersKey(wire.BatchID(e.Batch))
		lostOthers, err = s.part(ctx, snap, e, part{key, verifyOthers, func(o catalog.SegmentEntry) bool { return o.Batch == e.Batch }})
		lost = lost || lostOthers
	}
	if err == nil {
		s.state.lose(e, lost)
	}
	return err
}

// part is an object with records of one entry: its segment, or others that an import kept beside
// it.
type part struct {
	key    string
	verify func(context.Context, store.Store, catalog.SegmentEntry) error
	has    func(catalog.SegmentEntry) bool // reports whether the object has records of another entry of the edition, too
}

// part verifies and heals a part of an entry. It reports whether the part is lost.
func (s *Scrubber) part(ctx context.Context, snap *catalog.Snapshot, e catalog.SegmentEntry, p part) (lost bool, err error) {
	wrong, err := s.look(ctx, s.opt.Store, e, p)
	if err != nil {
		return false, err
	}
	var wrongCopy error
	if s.copied != nil {
		if wrongCopy, err = s.look(ctx, s.copied, e, p); err != nil {
			return false, fmt.Errorf("the copy: %w", err)
		}
	}
	healed, where := false, "store"
	switch {
	case wrong != nil:
		s.state.Damaged++
		if s.copied != nil && wrongCopy == nil {
			healed, err = s.heal(ctx, snap, e, p, s.opt.Store, s.copied)
		}
	case wrongCopy != nil && !errors.Is(wrongCopy, store.ErrNotExist): // a missing one is still to be copied
		s.state.CopyDamaged++
		where = "copy"
		healed, err = s.heal(ctx, snap, e, p, s.copied, s.opt.Store)
	default:
		return false, nil
	}
	if healed {
		s.state.Healed++
	}
	s.opt.Log.ErrorContext(ctx, "scrub: an object of the "+where+" is damaged", "host", e.Host, "object", p.key, "err", cmp.Or(wrong, wrongCopy), "healed", healed)
	return wrong != nil && !healed, err
}

// look verifies a part of an entry in one store. wrong is what is wrong with the part; err says
// that the store cannot be read now.
func (s *Scrubber) look(ctx context.Context, st store.Store, e catalog.SegmentEntry, p part) (wrong, err error) {
	passing := &passingFaults{Store: st}
	wrong = p.verify(ctx, passing, e)
	s.state.Bytes += e.Length
	if wrong != nil && (passing.err != nil || ctx.Err() != nil) {
		return nil, errors.Join(passing.err, ctx.Err())
	}
	return wrong, nil
}

// heal replaces to's object of the part by from's, if all of the edition's entries in from's object
// are right. It reports whether it replaced the object.
func (s *Scrubber) heal(ctx context.Context, snap *catalog.Snapshot, e catalog.SegmentEntry, p part, to, from store.Store) (bool, error) {
	for other, err := range snap.Edition(ctx, e.Edition) {
		if err != nil {
			return false, err
		}
		if !p.has(other) {
			continue
		}
		if wrong, err := s.look(ctx, from, other, p); wrong != nil || err != nil {
			return false, err
		}
	}
	info, err := from.Stat(ctx, p.key)
	if err != nil {
		return false, err
	}
	return true, put(ctx, to, from, info, true)
}

// passingFaults remembers errors of the store itself. They say nothing about the object that was
// read.
type passingFaults struct {
	store.Store
	mu  sync.Mutex // guards err
	err error
}

func (p *passingFaults) note(err error) error {
	for _, of := range []error{nil, io.EOF, store.ErrNotExist, store.ErrRange, store.ErrSize, syscall.EIO} {
		if errors.Is(err, of) {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = errors.Join(p.err, err)
	return err
}

// Open implements store.Store.
func (p *passingFaults) Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	r, err := p.Store.Open(ctx, key, off, n)
	if p.note(err) != nil {
		return nil, err
	}
	return &notedReader{r, p}, nil
}

type notedReader struct {
	io.ReadCloser
	faults *passingFaults
}

func (r *notedReader) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	return n, r.faults.note(err)
}

// Scrub is a Scrubber's progress and its findings.
type Scrub struct {
	Began time.Time `json:"began"`          // when the round under way began
	Place int64     `json:"place"`          // sequence number of the last segment that the round has verified
	Last  int64     `json:"last"`           // sequence number of the store's last segment
	Ended time.Time `json:"ended,omitzero"` // end of the last round that went through the whole store

	Bytes       int64 `json:"bytes"`        // of segments that were verified, in the store and in the copy
	Damaged     int64 `json:"damaged"`      // segments and others that the store lost or damaged
	CopyDamaged int64 `json:"copy_damaged"` // segments and others found damaged in the copy
	Healed      int64 `json:"healed"`       // objects that were replaced by the right ones, in the store or in the copy

	// Lost names the segments that are damaged or missing and could not be healed, as "host in
	// object", sorted: the first thousand.
	Lost []string `json:"lost"`

	Checked  time.Time `json:"checked,omitzero"` // when the catalog was last compared with what is stored
	Problems int64     `json:"problems"`         // problems that this comparison found and nothing has healed

	Copied time.Time `json:"copied,omitzero"` // when the copy last had all that is published
}

// CopySince returns the time when the copy last had everything that is published or, if it never
// had, Began.
func (s *Scrub) CopySince() time.Time {
	if s.Copied.IsZero() {
		return s.Began
	}
	return s.Copied
}

// Ratio returns the part of the store that the round under way has verified, from 0 to 1.
func (s *Scrub) Ratio() float64 {
	if s.Last == 0 {
		return 0
	}
	return float64(s.Place) / float64(s.Last)
}

// lose adds a lost segment to Lost, or removes a segment that is not lost any more.
func (s *Scrub) lose(e catalog.SegmentEntry, lost bool) {
	key := e.Host + " in " + e.Object
	at, found := slices.BinarySearch(s.Lost, key)
	switch {
	case lost && !found && len(s.Lost) < 1000:
		s.Lost = slices.Insert(s.Lost, at, key)
	case !lost && found:
		s.Lost = slices.Delete(s.Lost, at, at+1)
	}
}

// ReadScrub returns the last state that the Scrubber of any process has stored.
func ReadScrub(ctx context.Context, d *sql.DB) (s Scrub, err error) {
	var text string
	err = d.QueryRowContext(ctx, `SELECT state FROM scrub`).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &s)
	}
	if err != nil {
		return s, fmt.Errorf("state of the scrub: %w", err)
	}
	return s, nil
}

func (s *Scrub) write(ctx context.Context, d *sql.DB) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return db.Transact(ctx, d, nil, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO scrub (id, state) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET state = excluded.state`, string(text))
		return err
	})
}
