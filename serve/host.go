package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/store"
)

// The names of a host's archives that are no edition's.
const (
	baseCurrent = "current"
	baseAll     = "all"
)

// form is one way in which an archive is offered.
type form struct {
	suffix string
	kind   archive.ViewKind // empty: CDXJ
	media  string
	listed bool
}

// formWARC is the form that .cdxj is the index of.
const formWARC = 2

var forms = [...]form{
	{".members.tar.gz", archive.Members, "application/gzip", false}, // before .tar.gz, which it ends with
	{".tar.gz", archive.Single, "application/gzip", true},
	formWARC: {".warc.gz", archive.WARC, "application/gzip", true},
	{".cdxj", "", "text/plain; charset=utf-8", false},
}

// cutForm divides a file's name into its base and its form.
func cutForm(name string) (base string, f form, ok bool) {
	for _, f := range forms {
		if base, ok := strings.CutSuffix(name, f.suffix); ok && base != "" {
			return base, f, true
		}
	}
	return "", form{}, false
}

// CutForm divides the name of an archive into what comes before its form, and
// its form's suffix, such as ".tar.gz".
func CutForm(name string) (base, suffix string, ok bool) {
	base, f, ok := cutForm(name)
	return base, f.suffix, ok
}

// isHostFile reports whether a name is that of a file in a host's directory. No
// host's label looks like it: labels hold no dots and no capitals, and the
// directories of IP addresses have none of the suffixes.
func isHostFile(name string) bool {
	_, _, ok := cutForm(name)
	return ok || name == fileManifest || name == fileSums
}

// host is one host as one visit sees it: its segments in order of publication.
type host struct {
	*visit
	name  string
	place string // in the tree
	lines []catalog.Line
	taken []catalog.Tombstone // those that cover single URLs
}

func (v *visit) hostOf(name, place string, lines []catalog.Line) *host {
	h := &host{visit: v, name: name, place: place, lines: lines}
	for _, t := range v.snap.Tombstones(name) {
		if t.URLPrefix != "" {
			h.taken = append(h.taken, t)
		}
	}
	return h
}

func (h *host) modified() time.Time { return h.lines[len(h.lines)-1].Published }

// editions returns the names of the editions that brought something of the host, oldest first.
func (h *host) editions() []string {
	var names []string
	for _, l := range h.lines {
		if len(names) == 0 || names[len(names)-1] != l.Edition {
			names = append(names, l.Edition)
		}
	}
	return names
}

// fileNames lists the host's archives: editions, current, all.
func (h *host) fileNames() []string {
	var names []string
	for _, base := range append(h.editions(), baseCurrent, baseAll) {
		for _, f := range forms {
			if f.listed {
				names = append(names, base+f.suffix)
			}
		}
	}
	return names
}

func (v *visit) hostFiles(ctx context.Context, place string) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		h, err := v.host(ctx, place)
		if err != nil {
			yield(Node{}, err)
			return
		}
		if h == nil {
			return
		}
		for _, name := range append(h.fileNames(), fileManifest, fileSums) {
			e, err := h.file(ctx, name)
			if err != nil {
				yield(Node{}, fmt.Errorf("%s: %w", name, err))
				return
			}
			if !yield(e.Node, nil) {
				return
			}
		}
	}
}

func (v *visit) hostFile(ctx context.Context, place, name string) (*entry, error) {
	h, err := v.host(ctx, place)
	if err != nil {
		return nil, err
	}
	if h == nil {
		return nil, ErrNotFound
	}
	return h.file(ctx, name)
}

// file finds one file of the host.
func (h *host) file(ctx context.Context, name string) (*entry, error) {
	everything := h.archive(baseAll)
	switch name {
	case fileManifest:
		return h.document(ctx, everything.key(), name, "application/x-ndjson", h.modified(), h.writeManifest)
	case fileSums:
		return h.document(ctx, everything.key(), name, "text/plain; charset=utf-8", h.modified(), h.writeSums)
	}
	base, f, ok := cutForm(name)
	if !ok {
		return nil, ErrNotFound
	}
	a := h.archive(base)
	if len(a.lines) == 0 {
		return nil, ErrNotFound
	}
	if f.kind == "" {
		return h.document(ctx, a.key(), name, f.media, a.modified(), a.writeCDXJ)
	}
	return a.file(ctx, name, f)
}

// selection is what one archive of a host is made of.
type selection struct {
	*host
	base   string // of the archive's name
	lines  []catalog.Line
	latest bool // only the record that stands for each URL now
}

func (h *host) archive(base string) selection {
	switch base {
	case baseAll:
		return selection{host: h, base: base, lines: h.lines}
	case baseCurrent:
		return selection{host: h, base: base, lines: h.lines, latest: true}
	}
	var of []catalog.Line
	for _, l := range h.lines {
		if l.Edition == base {
			of = append(of, l)
		}
	}
	return selection{host: h, base: base, lines: of}
}

func (s selection) modified() time.Time { return s.lines[len(s.lines)-1].Published }

// whole reports whether the archive is one whole segment, of which the catalog knows the digests.
func (s selection) whole() bool { return len(s.lines) == 1 && !s.latest && len(s.taken) == 0 }

// file describes the archive in one form, out of the catalog alone where that knows it.
func (s selection) file(ctx context.Context, name string, f form) (*entry, error) {
	e := &entry{
		Node: Node{Name: name, Modified: whole(s.modified()), Type: f.media},
		open: func(ctx context.Context) (ranges, error) {
			a, err := s.assemble(ctx, f.kind)
			if err != nil {
				return nil, err
			}
			return a, nil
		},
		local: s.Library.local,
	}
	if known, ok := s.lines[0].Views[string(f.kind)]; ok && s.whole() {
		e.Size, e.ETag, e.SHA256 = known.Size, known.ETag, known.SHA256
		return e, nil
	}
	a, err := s.assemble(ctx, f.kind)
	if err != nil {
		return nil, err
	}
	e.Size, e.ETag = a.Size(), a.ETag()
	return e, nil
}

// assembly is a view and the lines of its parts.
type assembly struct {
	*archive.View
	lines []catalog.Line
}

// Bytes that a cached index and a cached view take for each record, about.
const (
	indexCost = 600
	viewCost  = 200
)

// assemble computes the archive's view, or finds it computed.
func (s selection) assemble(ctx context.Context, kind archive.ViewKind) (assembly, error) {
	return recall(ctx, s.cache, s.key("view", string(kind)), func(ctx context.Context) (assembly, int64, error) {
		parts, lines, err := s.parts(ctx)
		if err != nil {
			return assembly{}, 0, err
		}
		view, err := archive.NewView(kind, parts)
		if err != nil {
			return assembly{}, 0, fmt.Errorf("host %s: %w", s.name, err)
		}
		cost := int64(viewCost)
		for _, p := range parts {
			cost += int64(len(p.Index.Cells)) * viewCost
		}
		return assembly{view, lines}, cost, nil
	})
}

// key names what is computed of a selection: the same for as long as the host's
// own lines and take-downs are the same.
func (s selection) key(what ...string) string {
	d := sha256.New()
	fmt.Fprintf(d, "%q %q %v", what, s.name, s.latest)
	for _, l := range s.lines {
		fmt.Fprintf(d, " %d %s %s", l.Seq, l.Edition, l.SHA256)
	}
	for _, t := range s.taken {
		fmt.Fprintf(d, " %q %q", t.Edition, t.URLPrefix)
	}
	return hex.EncodeToString(d.Sum(nil))
}

// parts reads the indexes of the selection and chooses its records.
func (s selection) parts(ctx context.Context) ([]archive.Part, []catalog.Line, error) {
	parts := make([]archive.Part, len(s.lines))
	load, loadCtx := errgroup.WithContext(ctx)
	load.SetLimit(8)
	for i, l := range s.lines {
		load.Go(func() error {
			index, err := s.index(loadCtx, l)
			if err != nil {
				return err
			}
			parts[i] = archive.Part{Source: s.source(l), Index: index, Digest: l.SHA256, Cells: s.left(l, index)}
			return nil
		})
	}
	if err := load.Wait(); err != nil {
		return nil, nil, err
	}
	if s.latest {
		parts = latest(parts)
	}
	var (
		kept  []archive.Part
		lines []catalog.Line
	)
	for i, p := range parts {
		if p.Cells == nil || len(p.Cells) > 0 {
			kept, lines = append(kept, p), append(lines, s.lines[i])
		}
	}
	return kept, lines, nil
}

func (l *Library) source(line catalog.Line) archive.Source {
	return store.Source(l.Store, line.Object, line.Offset)
}

func (l *Library) index(ctx context.Context, line catalog.Line) (*archive.Index, error) {
	return recall(ctx, l.cache, "index "+line.SHA256, func(ctx context.Context) (*archive.Index, int64, error) {
		index, err := archive.ReadIndexAt(ctx, l.source(line), line.IndexOffset, line.IndexLength)
		if err != nil {
			return nil, 0, fmt.Errorf("index of %s in edition %s: %w", line.Host, line.Edition, err)
		}
		return index, int64(1+len(index.Cells)) * indexCost, nil
	})
}

// left returns the cells of a segment that are not taken down; nil is all of them.
func (h *host) left(l catalog.Line, index *archive.Index) []int {
	cells := make([]int, 0, len(index.Cells))
	for i := range index.Cells {
		if !h.gone(l, index.Cells[i].URL) {
			cells = append(cells, i)
		}
	}
	if len(cells) == len(index.Cells) {
		return nil
	}
	return cells
}

// gone reports whether a URL of a segment is taken down.
func (h *host) gone(l catalog.Line, url string) bool {
	return slices.ContainsFunc(h.taken, func(t catalog.Tombstone) bool {
		return (t.Edition == "" || t.Edition == l.Edition) && strings.HasPrefix(url, t.URLPrefix)
	})
}

// chosen yields the numbers of a part's cells.
func chosen(p archive.Part) iter.Seq[int] {
	return func(yield func(int) bool) {
		if p.Cells != nil {
			slices.Values(p.Cells)(yield)
			return
		}
		for i := range p.Index.Cells {
			if !yield(i) {
				return
			}
		}
	}
}

// local opens the file that an assembly is one stretch of, where the store keeps files.
func (l *Library) local(content ranges) (*os.File, int64, error) {
	files, ok := store.AsLocal(l.Store)
	if !ok {
		return nil, 0, nil
	}
	a := content.(assembly)
	part, off, n, ok := a.Contiguous()
	if !ok || n != a.Size() {
		return nil, 0, nil
	}
	line := a.lines[part]
	f, err := files.OpenFile(line.Object)
	return f, line.Offset + off, err
}

func isNotFound(err error) bool { return errors.Is(err, ErrNotFound) }
