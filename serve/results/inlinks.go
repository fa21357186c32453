package results

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/internal/api"
	"sheaf/internal/weburl"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// Inlinks finds who links to pages, in stored tables that package tree names.
type Inlinks struct {
	Archive *library.Library
	Account *account.Account
	From    []*library.Entry // tables of volumes of the latest versions, in a fixed order
	Target  library.Target   // of one site
	After   string           // a cursor
	Limit   int
	Enough  func() bool // reports whether an answer has taken long enough
}

// Pages returns links to the target. next is the cursor of the rest, empty at the end.
func (x *Inlinks) Pages(ctx context.Context) (found []api.Inlink, next string, err error) {
	next, err = find(ctx, x, func(r *linkRow) string { return r.TargetKey }, func(s *seer, r *linkRow) (bool, error) {
		ok, err := s.shows(ctx, r.SourceHost, r.Edition, r.Source, r.Time)
		if ok = ok && !s.withdrew(r.Target); ok {
			found = append(found, api.Inlink{
				Source: r.Source, Time: time.UnixMicro(r.Time).UTC(), Edition: r.Edition, Target: r.Target, Kind: r.Kind, Rel: r.Rel, Anchor: r.Anchor, NoFollow: r.NoFollow,
			})
		}
		return ok, err
	})
	return found, next, err
}

// Hosts returns the hosts that have links to the target's site. next is as in Pages.
func (x *Inlinks) Hosts(ctx context.Context) (found []api.InlinkHost, next string, err error) {
	next, err = find(ctx, x, func(r *linkHostRow) string { return r.TargetKey }, func(s *seer, r *linkHostRow) (bool, error) {
		if s.withdrew("http://" + r.TargetHost + "/") {
			return false, nil
		}
		ok, err := s.shows(ctx, r.SourceHost, "", r.SampleSource, 0)
		if h := (api.InlinkHost{Host: r.SourceHost, Pages: r.Pages, Links: r.Links}); s.host != nil && (ok || r.Pages > 1) {
			if ok && !s.withdrew(r.SampleTarget) {
				h.Source, h.Target = r.SampleSource, r.SampleTarget
			}
			found = append(found, h)
			return true, err
		}
		return false, err
	})
	return found, next, err
}

// spot is the place of a row in a table.
type spot struct {
	group int
	row   int64 // in the group
}

// errEnough ends a search before its end.
var errEnough = errors.New("enough")

// find calls take with each row of the target, until take has taken Limit rows or the time is up.
// It returns the cursor of the rest.
func find[T any](ctx context.Context, x *Inlinks, keyOf func(*T) string, take func(*seer, *T) (taken bool, err error)) (next string, err error) {
	v, err := x.Archive.View(ctx, x.Account)
	if err != nil {
		return "", err
	}
	defer v.Release()
	s, taken := &seer{view: v}, 0
	at, from, err := x.place()
	for ; err == nil && at < len(x.From); at++ {
		begun := from
		err = lookup(ctx, x.From[at], x.Target.KeyPrefix(), from, keyOf, func(here spot, r *T) error {
			if taken == x.Limit || here != begun && x.Enough() {
				next = fmt.Sprintf("%s %d %d", x.From[at].Name, here.group, here.row)
				return errEnough
			}
			if !x.Target.Holds(keyOf(r)) {
				return nil
			}
			ok, err := take(s, r)
			if ok {
				taken++
			}
			return err
		})
		from = spot{row: -1}
		if err == nil && at+1 < len(x.From) && x.Enough() {
			next, err = x.From[at+1].Name+" 0 -1", errEnough
		}
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	return base64.RawURLEncoding.EncodeToString([]byte(next)), err
}

// place returns where an answer begins: in which table, and at which of its rows; -1: at the first
// of the target. A cursor holds while the tables are those of the same edition.
func (x *Inlinks) place() (table int, from spot, err error) {
	if x.After == "" {
		return 0, spot{row: -1}, nil
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(x.After)
	var name string
	if err == nil {
		_, err = fmt.Sscanf(string(text), "%s %d %d", &name, &from.group, &from.row)
	}
	table = slices.IndexFunc(x.From, func(e *library.Entry) bool { return e.Name == name })
	if err != nil || table < 0 || from.group < 0 || from.row < -1 {
		return 0, from, fmt.Errorf("%w: %.80q; newer tables may have been made: begin again", library.ErrCursor, x.After)
	}
	return table, from, nil
}

// sortedBy is the column by which tables of inlinks and of linking hosts are sorted.
const sortedBy = "target_surtkey"

// lookup calls fn with the rows of a sorted table whose keys begin with a prefix. It reads only the
// parts that the table's own index names.
func lookup[T any](ctx context.Context, table *library.Entry, prefix string, from spot, keyOf func(*T) string, fn func(spot, *T) error) error {
	ranges, err := table.Open(ctx)
	if err != nil {
		return err
	}
	f, err := parquet.OpenFile(&rangesAt{ctx, ranges, table.Size}, table.Size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return fmt.Errorf("%s: %w", table.Name, err)
	}
	column, ok := f.Schema().Lookup(sortedBy)
	if !ok {
		return fmt.Errorf("%s has no column %s", table.Name, sortedBy)
	}
	for at := from; at.group < len(f.RowGroups()); at = (spot{at.group + 1, -1}) {
		group := f.RowGroups()[at.group]
		first, err := firstRow(group.ColumnChunks()[column.ColumnIndex], prefix)
		if err != nil {
			return fmt.Errorf("%s: %w", table.Name, err)
		}
		at.row = max(at.row, first) // a forged cursor may name a row far before it
		if more, err := readRows(group, at, prefix, keyOf, fn); err != nil || !more {
			return err
		}
	}
	return nil
}

// firstRow returns the first row of the page in which the first row at or behind key lies. If no
// row is at or behind key, it returns the number of rows.
func firstRow(column parquet.ColumnChunk, key string) (int64, error) {
	if in, ok := column.(*parquet.FileColumnChunk); ok { // the table's end tells without reading more
		if _, most, ok := in.Bounds(); ok && string(most.ByteArray()) < key {
			return column.NumValues(), nil
		}
	}
	index, err := column.ColumnIndex()
	if err != nil {
		return 0, err
	}
	offsets, err := column.OffsetIndex()
	if err != nil {
		return 0, err
	}
	page := sort.Search(index.NumPages(), func(i int) bool { return string(index.MaxValue(i).ByteArray()) >= key })
	if page == index.NumPages() {
		return column.NumValues(), nil
	}
	return offsets.FirstRowIndex(page), nil
}

// readRows calls fn with each row of a group, from a spot on, if the row's key begins with prefix.
// more says that the next group may have such rows, too.
func readRows[T any](group parquet.RowGroup, at spot, prefix string, keyOf func(*T) string, fn func(spot, *T) error) (more bool, err error) {
	if at.row >= group.NumRows() {
		return true, nil
	}
	in := parquet.NewGenericRowGroupReader[T](group)
	defer in.Close()
	if err := in.SeekToRow(at.row); err != nil {
		return false, err
	}
	rows := make([]T, 64)
	for {
		clear(rows)
		n, err := in.Read(rows)
		for i := range rows[:n] {
			switch key := keyOf(&rows[i]); {
			case strings.HasPrefix(key, prefix):
				if err := fn(at, &rows[i]); err != nil {
					return false, err
				}
			case key > prefix:
				return false, nil
			}
			at.row++
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// rangesAt makes an io.ReaderAt of a file's ranges.
type rangesAt struct {
	ctx  context.Context
	from library.Ranges
	size int64
}

func (r *rangesAt) ReadAt(p []byte, off int64) (int, error) {
	n := min(int64(len(p)), r.size-off)
	if n <= 0 {
		return 0, io.EOF
	}
	in, err := r.from.OpenRange(r.ctx, off, n)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	got, err := io.ReadFull(in, p[:n])
	if err == nil && got < len(p) {
		err = io.EOF
	}
	return got, err
}

// seer says what an account sees of pages.
type seer struct {
	view *library.AccountView
	name string
	host *library.Host // of that name; nil: the account sees none
}

// shows reports whether the account sees what an edition brought of a page, fetched at a time in
// microseconds; edition "" and time 0: any.
func (s *seer) shows(ctx context.Context, host, edition, url string, micros int64) (shown bool, err error) {
	if host != s.name {
		s.name = host
		if s.host, err = s.view.Host(ctx, naming.HostPath(host)); err != nil {
			return false, err
		}
	}
	if s.host == nil {
		return false, nil
	}
	at := time.Time{}
	if micros != 0 {
		at = time.UnixMicro(micros)
	}
	for _, seg := range s.host.Segments {
		if edition == "" || seg.Edition == edition {
			if shown = true; s.host.Gone(seg, url, at) {
				return false, nil
			}
		}
	}
	return shown, nil
}

// withdrew reports whether a page was taken down, or is hidden from the account. Answers do not
// name such a page.
func (s *seer) withdrew(url string) bool {
	host, err := naming.HostOf(url)
	return err == nil && (s.view.Veil.HidesHost(host) || s.view.Veil.HidesPages(host, url) ||
		slices.ContainsFunc(s.view.Snap.Tombstones(host), func(t catalog.Tombstone) bool {
			return t.Edition == "" && t.Collection == "" && t.Robot == "" && (t.URLPrefix == "" || weburl.PrefixOf(t.URLPrefix).Holds(url))
		}))
}
