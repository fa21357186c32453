package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/internal/files"
	"sheaf/internal/wire"
	"sheaf/robotd/config"
)

// Seal makes a batch of the given hosts' open segments, and puts it into the spool. It returns an
// empty ID if no segment has a complete page. Pages that are appended meanwhile go into new
// segments. If hosts is nil, the batch has all hosts. Otherwise it is an express batch, which may
// be published at any time, and its hosts' coverage goes into the next batch of all hosts.
func (s *Store) Seal(ctx context.Context, generation int64, hosts map[string]bool) (wire.BatchID, error) {
	s.sealing.Lock()
	defer s.sealing.Unlock()
	// Complete what an earlier attempt left, so that the chain is in the order of the numbers.
	made, err := s.finish(ctx, generation)
	defer func() {
		if made && s.opt.Made != nil {
			s.opt.Made()
		}
	}()
	if err != nil {
		return "", err
	}
	id, written, err := s.gather(hosts)
	if err != nil || id == "" {
		return "", err
	}
	whole, err := s.build(ctx, id, generation, written)
	if err != nil || !whole {
		return "", err
	}
	made = true
	return id, nil
}

// expressFile is a file in sealing/<batch> that marks an express batch.
const expressFile = "express"

// gather moves the open segments to sealing/<batch>. It returns the batch's ID, and by host what
// this process has written to the segments. The ID is empty if there are no segments.
func (s *Store) gather(hosts map[string]bool) (id wire.BatchID, written map[string]archive.Written, err error) {
	moved, id, err := s.moveAside(hosts)
	written = make(map[string]archive.Written, len(moved))
	for _, seg := range moved { // without the lock, so that pages can be stored meanwhile
		err = errors.Join(err, seg.close(s.path(sealingDir, string(id), filepath.Base(s.segmentPath(seg)))))
		written[seg.host] = seg.written
	}
	if err != nil || id == "" {
		return "", nil, err
	}
	return id, written, errors.Join(files.SyncDir(s.path(sealingDir, string(id))), files.SyncDir(s.path(sealingDir)), files.SyncDir(s.path(openDir)))
}

// moveAside moves the hosts' segments from open to sealing/<batch>, and returns them for the caller
// to close.
func (s *Store) moveAside(hosts map[string]bool) (written []*segment, id wire.BatchID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seg := range s.segments.all() {
		if hosts != nil && !hosts[seg.host] {
			continue
		}
		if seg.fresh {
			s.segments.remove(seg)
			continue
		}
		if id == "" {
			id = wire.NewBatchID(s.opt.Robot, time.Now(), s.chain.Number+1)
			if err := os.MkdirAll(s.path(sealingDir, string(id)), 0o755); err != nil {
				return written, "", err
			}
			if hosts != nil { // before the first segment, so that the batch is express after a crash, too
				if err := os.WriteFile(s.path(sealingDir, string(id), expressFile), nil, 0o644); err != nil {
					return written, "", err
				}
			}
		}
		path := s.segmentPath(seg)
		for _, from := range []string{path + linksSuffix, path} { // there is no links file if no page has links
			if err := os.Rename(from, s.path(sealingDir, string(id), filepath.Base(from))); err != nil && (from == path || !os.IsNotExist(err)) {
				return written, "", err
			}
		}
		s.segments.remove(seg)
		written = append(written, seg)
	}
	if id != "" && hosts == nil && s.opt.Ledger != nil {
		err = s.opt.Ledger.Move(s.path(sealingDir, string(id), ledgerFile))
	}
	return written, id, err
}

// recover completes at start what a crash has left in sealing.
func (s *Store) recover(generation int64) error {
	torn, err := filepath.Glob(s.path(spoolDir, "*"+files.TempSuffix))
	if err != nil {
		return err
	}
	for _, path := range torn {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	if _, err := s.finish(context.Background(), generation); err != nil {
		return err
	}
	return s.sweep()
}

// sweep completes what Remove and Quarantine began. Remove deletes the manifest first, and
// Quarantine moves the manifest last.
func (s *Store) sweep() error {
	aside, err := filepath.Glob(s.path(quarantineDir, "*.tar.gz"))
	if err != nil {
		return err
	}
	for _, path := range aside {
		id := wire.BatchID(strings.TrimSuffix(filepath.Base(path), ".tar.gz"))
		if err := os.Rename(s.manifestPath(id), s.path(quarantineDir, string(id)+".manifest")); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	paths, err := filepath.Glob(s.path(spoolDir, "*.tar.gz"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		id := wire.BatchID(strings.TrimSuffix(filepath.Base(path), ".tar.gz"))
		if _, err := os.Stat(s.manifestPath(id)); os.IsNotExist(err) {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish builds every batch in sealing, in the order of their numbers. It reports whether a batch
// has come into the spool, even if a later batch fails.
func (s *Store) finish(ctx context.Context, generation int64) (made bool, err error) {
	dirs, err := filepath.Glob(s.path(sealingDir, "*"))
	if err != nil {
		return false, err
	}
	slices.SortFunc(dirs, func(a, b string) int { return int(number(wire.BatchID(a)) - number(wire.BatchID(b))) })
	for _, dir := range dirs {
		id := wire.BatchID(filepath.Base(dir))
		if !id.Valid() {
			return made, fmt.Errorf("%s is not named after a batch; move it away", dir)
		}
		whole, err := s.build(ctx, id, generation, nil)
		if err != nil {
			return made, err
		}
		made = made || whole
	}
	return made, nil
}

// number returns a batch's number, the last part of its ID.
func number(id wire.BatchID) int64 {
	n, _ := strconv.ParseInt(string(id[strings.LastIndexByte(string(id), '-')+1:]), 10, 64)
	return n
}

// build seals the segments, writes the batch and its manifest into the spool, adds the manifest to
// the chain and deletes the segments. Each step may have been done already. If a crash has left no
// complete page, it makes no batch.
func (s *Store) build(ctx context.Context, id wire.BatchID, generation int64, written map[string]archive.Written) (made bool, err error) {
	signed, err := os.ReadFile(s.manifestPath(id))
	if os.IsNotExist(err) {
		signed, err = s.write(ctx, id, generation, written)
	}
	if err != nil {
		return false, fmt.Errorf("batch %s: %w", id, err)
	}
	if signed != nil {
		if err := s.enter(chain{Number: number(id), Batch: id, Digest: wire.Digest(signed)}); err != nil {
			return false, fmt.Errorf("batch %s: %w", id, err)
		}
	}
	return signed != nil, os.RemoveAll(s.path(sealingDir, string(id)))
}

// enter makes a manifest the last of the chain, unless it is already.
func (s *Store) enter(next chain) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if next.Number <= s.chain.Number {
		return nil
	}
	if err := config.SaveJSON(s.path(chainFile), next); err != nil {
		return err
	}
	s.chain = next
	return nil
}

// seal seals one of the batch's segments. It reads back what will be sent: a page that the disk has
// damaged is left out, with all pages after it. If written has the host, the checksum of the whole
// segment shows whether there is such a page. An index without cells means that no page is
// complete.
func (s *Store) seal(path string, written map[string]archive.Written) (*archive.Index, error) {
	seg, err := parseSegment(path)
	if err != nil {
		return nil, err
	}
	idx, err := archive.SealWritten(path, seg.host, seg.id, written[seg.host], s.opt.Writer)
	if err != nil {
		return nil, fmt.Errorf("sealing the segment of %s: %w", seg.host, err)
	}
	return idx, nil
}

// errNoPage says that no segment of the batch has a complete page.
var errNoPage = errors.New("no whole page is left")

// write seals the batch's segments and joins them, one after another, so that only one index is in
// memory. It returns nil if there is no complete page.
func (s *Store) write(ctx context.Context, id wire.BatchID, generation int64, written map[string]archive.Written) (signed []byte, err error) {
	paths, err := filepath.Glob(s.path(sealingDir, string(id), "*"+suffix))
	if err != nil {
		return nil, err
	}
	m := &wire.Manifest{
		Format: wire.ManifestFormat, Batch: id, Robot: s.opt.Robot, Version: s.opt.Version,
		Generation: generation, Created: time.Now().UTC().Truncate(time.Millisecond), Previous: s.chain.Digest, Signed: s.opt.Signed,
	}
	if _, err := os.Stat(s.path(sealingDir, string(id), expressFile)); err == nil {
		m.Express = true
	}
	if s.opt.Clock != nil {
		m.Clock = s.opt.Clock()
	}
	report, err := ReadReport(s.path(sealingDir, string(id), ledgerFile))
	if err != nil {
		return nil, err
	}
	err = files.WriteWith(s.batchPath(id), func(w io.Writer) error { return s.join(ctx, w, m, paths, written, report) })
	if errors.Is(err, errNoPage) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := m.Check(); err != nil {
		return nil, err
	}
	if signed, err = m.Sign(s.opt.Key); err != nil {
		return nil, err
	}
	err = files.WriteFile(s.manifestPath(id), signed)
	s.opt.Log.InfoContext(ctx, "batch made", "batch", id, "hosts", len(m.Hosts), "bytes", m.Size)
	return signed, err
}

// join writes the segments at the given paths as one batch, and completes the manifest.
func (s *Store) join(ctx context.Context, w io.Writer, m *wire.Manifest, paths []string, written map[string]archive.Written, report *Report) error {
	bw := archive.NewBatchWriter(w)
	for _, path := range paths {
		idx, err := s.seal(path, written)
		if err != nil {
			return err
		}
		if len(idx.Cells) == 0 {
			continue
		}
		host, err := addSegment(ctx, bw, path, idx)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		report.AddSegment(idx)
		m.Hosts = append(m.Hosts, host)
	}
	if len(m.Hosts) == 0 {
		return errNoPage
	}
	m.Coverage = report.Hosts()
	inside, err := json.Marshal(m)
	if err != nil {
		return err
	}
	m.Size, m.SHA256, err = bw.Finish(inside)
	return err
}

func addSegment(ctx context.Context, bw *archive.BatchWriter, path string, idx *archive.Index) (wire.Host, error) {
	f, err := os.Open(path)
	if err != nil {
		return wire.Host{}, err
	}
	defer f.Close()
	return bw.AddSegment(ctx, archive.FileSource(f, 0), idx)
}

// chain is the end of the chain of manifests. Each manifest has the digest of the one before.
type chain struct {
	Number int64        `json:"number"`
	Batch  wire.BatchID `json:"batch"`
	Digest string       `json:"digest"`
}

func (c *chain) load(path string) error {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, c); err != nil {
		return fmt.Errorf("%s: %w; restore it from the newest manifest in the spool", path, err)
	}
	return nil
}
