package batch

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/archive"
	"sheaf/internal/files"
	"sheaf/internal/wire"
)

// Options are the settings of a Store.
type Options struct {
	Robot   string
	Version string // of the program
	Key     ed25519.PrivateKey
	Writer  archive.WriterOptions
	MaxOpen int // limit for segments with an open file; default 1,000

	Ledger *Ledger            // coverage to include in batches; nil: none
	Signed bool               // the robot signs its requests
	Clock  func() *wire.Clock // returns the clock's error, or nil if unknown; may be nil
	Made   func()             // called after batches came into the spool, not by Open; may be nil
	Log    *slog.Logger
}

// Store has a robot's open segments and its spool. It may be used concurrently, but only by one
// goroutine at a time for each host's segment.
type Store struct {
	dir string
	opt Options

	sealing sync.Mutex // held while a batch is made, so that numbers are in order

	naming  sync.Mutex  // held while the names of new segments are synced
	unnamed atomic.Bool // there are names that are not synced

	mu       sync.RWMutex // held for writing while segments are moved away from their writers
	segments segments
	chain    chain
}

// Open opens or creates the store in dir and completes the batches that a crash interrupted.
// generation is the number of the assignment under which the batches' pages were collected.
func Open(dir string, generation int64, opt Options) (*Store, error) {
	opt.MaxOpen = cmp.Or(opt.MaxOpen, 1000)
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	opt.Writer.Pool = new(archive.WriterPool)
	s := &Store{dir: dir, opt: opt}
	for _, sub := range []string{openDir, sealingDir, quarantineDir} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	if err := s.chain.load(s.path(chainFile)); err != nil {
		return nil, err
	}
	s.segments.max, s.segments.hosts = opt.MaxOpen, make(map[string]*segment)
	if err := s.findSegments(); err != nil {
		return nil, err
	}
	return s, s.recover(generation)
}

const (
	openDir       = "open"
	sealingDir    = "sealing"
	spoolDir      = "spool"
	quarantineDir = "spool/quarantined"
	chainFile     = "chain.json"
	ledgerFile    = "coverage.tsv"
	suffix        = ".seg"
	linksSuffix   = ".links" // suffix of the file in which archive.Writer stores the links of a segment's pages
)

func (s *Store) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

// Cell is the cell of a record, in a host's open segment or in a batch in the spool.
type Cell struct {
	archive.Cell
	Segment string // the open segment, if Append has returned the cell
	End     int64  // length of the open segment including the cell; 0: the cell is in a batch

	path string // of the file
	base int64  // offset in the file that cells' offsets are relative to
}

// WARC returns the cell's record as in a warc.gz: one gzip member.
func (c *Cell) WARC(ctx context.Context) ([]byte, error) {
	f, err := os.Open(c.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	idx := &archive.Index{Cells: []archive.Cell{c.Cell}}
	view, err := archive.NewView(archive.WARC, []archive.Part{{Source: archive.FileSource(f, c.base), Index: idx}})
	if err != nil {
		return nil, err
	}
	record := make([]byte, c.WARCLength())
	r, err := view.OpenRange(ctx, view.Size()-c.WARCLength(), c.WARCLength())
	if err != nil {
		return nil, err
	}
	defer r.Close()
	_, err = io.ReadFull(r, record)
	return record, err
}

// Append appends a record to the host's open segment, creating the segment if the host has none.
// The cell is then complete in the file; it is durable after Sync or Seal. No batch is made until
// the caller calls noted, after it has recorded elsewhere that the record is stored. With an error,
// noted is nil.
func (s *Store) Append(host string, rec *archive.Record) (cell Cell, noted func(), err error) {
	s.mu.RLock()
	seg, err := s.segments.get(host, func() *segment { return s.newSegment(host) })
	if err != nil {
		s.mu.RUnlock()
		return Cell{}, nil, err
	}
	noted = func() {
		s.segments.put(seg)
		s.mu.RUnlock()
	}
	if _, err = s.load(seg); err == nil {
		cell.Cell, err = seg.writer.Append(rec)
		if err != nil {
			err = fmt.Errorf("segment of %s: %w", host, err)
		}
	}
	if err != nil {
		noted()
		return Cell{}, nil, err
	}
	s.segments.grow(seg, seg.writer.Size())
	cell.Segment, cell.End, cell.path = seg.id, seg.writer.Size(), s.segmentPath(seg)
	return cell, noted, nil
}

// Resume opens the segment that an earlier process has left of a host, and truncates an incomplete
// cell. It returns the segment's name and cells. The name is empty if the host has no segment, or
// if this process has opened it already.
func (s *Store) Resume(host string) (id string, cells []archive.Cell, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	seg, err := s.segments.get(host, nil)
	if err != nil || seg == nil {
		return "", nil, err
	}
	defer s.segments.put(seg)
	if seg.fresh || seg.parked || seg.writer != nil {
		return "", nil, nil
	}
	if cells, err = s.load(seg); err != nil {
		return "", nil, err
	}
	return seg.id, cells, nil
}

// Sync makes the host's cells durable.
func (s *Store) Sync(host string) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	seg, err := s.segments.get(host, nil)
	if err != nil || seg == nil {
		return err
	}
	defer s.segments.put(seg)
	return errors.Join(seg.sync(s.segmentPath(seg)), s.syncNames())
}

// syncNames syncs the names of new segments. It is not called for each new segment, since there may
// be ten thousand in a short time.
func (s *Store) syncNames() error {
	s.naming.Lock()
	defer s.naming.Unlock()
	if !s.unnamed.Swap(false) {
		return nil
	}
	err := files.SyncDir(s.path(openDir))
	if err != nil {
		s.unnamed.Store(true)
	}
	return err
}

// Size returns the bytes in open segments.
func (s *Store) Size() int64 { return s.segments.size() }

// Close syncs and closes the open segments; the next Open goes on with them.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, seg := range s.segments.all() {
		errs = append(errs, seg.close(s.segmentPath(seg)))
	}
	errs = append(errs, s.syncNames())
	return errors.Join(errs...)
}

func (s *Store) newSegment(host string) *segment {
	id := fmt.Sprintf("%s-%s", s.opt.Robot, time.Now().UTC().Format("20060102T150405.000000Z"))
	return &segment{host: host, id: strings.Replace(id, ".", "-", 1), fresh: true}
}

func (s *Store) segmentPath(seg *segment) string {
	return s.path(openDir, url.QueryEscape(seg.host)+"@"+seg.id+suffix)
}

// load opens the segment's file if it is not open. If an earlier process left the file, load
// returns its cells.
func (s *Store) load(seg *segment) (cells []archive.Cell, err error) {
	if seg.writer != nil {
		return nil, nil
	}
	path := s.segmentPath(seg)
	switch {
	case seg.fresh:
		seg.writer, err = archive.Create(path, seg.host, seg.id, s.opt.Writer)
		if seg.fresh = err != nil; !seg.fresh {
			s.unnamed.Store(true)
		}
	case seg.parked:
		seg.writer, err = archive.Resume(path, seg.host, seg.id, seg.written, s.opt.Writer)
	default:
		seg.writer, cells, err = archive.Reopen(path, seg.host, seg.id, s.opt.Writer)
	}
	if err != nil {
		return nil, fmt.Errorf("segment %s: %w", path, err)
	}
	s.segments.grow(seg, seg.writer.Size())
	return cells, nil
}

// findSegments finds the segments that an earlier process has left. Nothing else may use s yet.
func (s *Store) findSegments() error {
	paths, err := filepath.Glob(s.path(openDir, "*"+suffix))
	if err != nil {
		return err
	}
	for _, path := range paths {
		seg, err := parseSegment(path)
		if err != nil {
			return err
		}
		st, err := os.Stat(path)
		if err != nil {
			return err
		}
		s.segments.hosts[seg.host] = seg
		s.segments.grow(seg, st.Size())
	}
	return nil
}

func parseSegment(path string) (*segment, error) {
	name := strings.TrimSuffix(filepath.Base(path), suffix)
	escaped, id, ok := strings.Cut(name, "@")
	host, err := url.QueryUnescape(escaped)
	if !ok || err != nil || host == "" {
		return nil, fmt.Errorf("segment %s is not named <host>@<segment>%s; move it away", path, suffix)
	}
	return &segment{host: host, id: id}, nil
}

// Last returns the ID of the last batch, or "" before the first one.
func (s *Store) Last() wire.BatchID {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.chain.Batch
}
