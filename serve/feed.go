package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/account"
	"sheaf/serve/feed"
)

// Errors of Changes.
var (
	// ErrFuture says that a cursor's number has not been given yet.
	ErrFuture = catalog.ErrFuture
	// ErrOtherFeed says that a cursor is of another feed: the archive was put back
	// to an older state, or the account may see other hosts than it did.
	ErrOtherFeed = errors.New("the cursor is not of this feed")
)

// Selection says of which hosts changes are wanted: of those that any of its
// fields names; of all where it names none.
type Selection struct {
	SURT    []string // beginnings of host keys, such as "jp,ac,"
	Domains []string // "waseda.ac.jp" is the host and all below it
	Hosts   []string
}

// wanted is one part of a selection, or of a scope.
type wanted struct {
	prefix string // of the keys of hosts that may be it
	holds  func(host, key string) bool
}

func (q Selection) parts() (parts []wanted) {
	for _, prefix := range q.SURT {
		parts = append(parts, wanted{prefix, func(_, key string) bool { return strings.HasPrefix(key, prefix) }})
	}
	for _, domain := range q.Domains {
		parts = append(parts, below(archive.HostPath(domain)))
	}
	for _, name := range q.Hosts {
		parts = append(parts, wanted{catalog.Key(name), func(host, _ string) bool { return host == name }})
	}
	if len(parts) == 0 {
		parts = append(parts, below(""))
	}
	return parts
}

// below is everything at and under a place of the tree.
func below(root string) wanted {
	return wanted{account.KeyPrefix(root), func(host, _ string) bool { return account.Within(archive.HostPath(host), root) }}
}

// reader reads the change feed as one visit sees it.
type reader struct {
	*visit
	prefixes []string // none begins with another
	scope    []wanted
	parts    []wanted
}

func (v *visit) feed(q Selection) *reader {
	r := &reader{visit: v, parts: q.parts()}
	var prefixes []string
	for _, root := range v.scope {
		s := below(root)
		r.scope = append(r.scope, s)
		for _, p := range r.parts {
			switch {
			case strings.HasPrefix(p.prefix, s.prefix):
				prefixes = append(prefixes, p.prefix)
			case strings.HasPrefix(s.prefix, p.prefix):
				prefixes = append(prefixes, s.prefix)
			}
		}
	}
	slices.Sort(prefixes)
	for _, p := range prefixes {
		if n := len(r.prefixes); n == 0 || !strings.HasPrefix(p, r.prefixes[n-1]) {
			r.prefixes = append(r.prefixes, p)
		}
	}
	return r
}

func (r *reader) holds(host, key string) bool {
	holds := func(w wanted) bool { return w.holds(host, key) }
	return slices.ContainsFunc(r.scope, holds) && slices.ContainsFunc(r.parts, holds)
}

// events gives up to limit events behind since, and the number up to which these
// are all.
func (r *reader) events(ctx context.Context, since int64, limit int) (events []feed.Event, last int64, err error) {
	var changes []catalog.Change
	last = r.snap.Last()
	for _, prefix := range r.prefixes {
		some, to, err := r.snap.Changes(ctx, since, prefix, limit)
		if err != nil {
			return nil, since, err
		}
		changes, last = append(changes, some...), min(last, to)
	}
	slices.SortFunc(changes, func(a, b catalog.Change) int { return cmp.Compare(a.Seq, b.Seq) })
	changes = slices.DeleteFunc(changes, func(c catalog.Change) bool { return c.Seq > last })
	if len(changes) > limit {
		changes = changes[:limit]
		last = changes[limit-1].Seq
	}
	for i, c := range changes {
		host := hostOfChange(c)
		if !r.holds(host, catalog.Key(host)) {
			continue
		}
		e := feed.Event{
			Seq: c.Seq, At: c.At.UTC(), Version: c.Version,
			Host: host, SURT: catalog.Key(host), Path: "/" + archive.HostPath(host) + "/",
		}
		told := true
		switch {
		case c.Entry != nil:
			err = r.tellLine(ctx, &e, changes, i)
		case c.Expiry != nil:
			err = r.tellExpiry(ctx, &e, c.Expiry)
		default:
			told = tellTombstone(&e, c.Tombstone)
		}
		if err != nil {
			return nil, since, err
		}
		if told {
			events = append(events, e)
		}
	}
	return events, last, nil
}

func hostOfChange(c catalog.Change) string {
	switch {
	case c.Entry != nil:
		return c.Entry.Host
	case c.Expiry != nil:
		return c.Expiry.Host
	}
	return c.Tombstone.Host
}

// tellLine tells of a segment. Its digests are those of the edition's files where
// it is all that the edition has of the host. Lines of one host in one edition have
// numbers that follow one another, so the neighbours tell; at the ends of what was
// read the catalog does.
func (r *reader) tellLine(ctx context.Context, e *feed.Event, changes []catalog.Change, i int) error {
	l := changes[i].Entry
	e.Op, e.Edition = feed.Put, l.Edition
	e.Batch, e.Robot, e.Records, e.First, e.Last = l.Batch, l.Robot, l.Records, l.First.UTC(), l.Last.UTC()
	if slices.ContainsFunc(r.snap.Tombstones(l.Host), func(t catalog.Tombstone) bool { return t.URLPrefix != "" }) {
		return nil
	}
	same := func(n int) bool {
		o := changes[n].Entry
		return o != nil && o.Host == l.Host && o.Edition == l.Edition
	}
	first, end := i == 0, i == len(changes)-1
	if !first && same(i-1) || !end && same(i+1) {
		return nil
	}
	if first || end {
		lines, err := r.snap.HostEdition(ctx, l.Host, l.Edition)
		if err != nil || len(lines) > 1 {
			return err
		}
	}
	for _, f := range forms {
		if v, known := l.Views[string(f.kind)]; known && f.listed {
			e.Files = append(e.Files, feed.File{Name: l.Edition + f.suffix, Size: v.Size, SHA256: v.SHA256, ETag: v.ETag})
		}
	}
	return nil
}

func (r *reader) tellExpiry(ctx context.Context, e *feed.Event, x *catalog.Expiry) error {
	e.Op, e.Edition, e.Why = feed.Delete, x.Edition, "expired"
	left, err := r.snap.HostEdition(ctx, x.Host, x.Edition)
	if len(left) > 0 {
		e.Op = feed.Reseal
	}
	return err
}

// tellTombstone tells of a take-down. Who decided it, and why, stays here.
func tellTombstone(e *feed.Event, t *catalog.Tombstone) bool {
	e.Edition, e.URLPrefix = t.Edition, t.URLPrefix
	switch {
	case t.Act == catalog.Erase: // nobody sees a difference
		return false
	case t.Act == catalog.Lift:
		e.Op, e.Why = feed.Reseal, "lifted"
	case t.URLPrefix != "":
		e.Op, e.Why = feed.Reseal, "takedown"
	default:
		e.Op, e.Why = feed.Delete, "takedown"
	}
	return true
}

// cursor gives the cursor behind a number.
func (v *visit) cursor(ctx context.Context, seq int64) (feed.Cursor, error) {
	m, err := v.snap.Checkpoint(ctx, seq)
	if err != nil || seq == 0 {
		return feed.Cursor{}, err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %q", m.Digest, v.scope))
	return feed.Cursor{Since: seq, Mark: hex.EncodeToString(sum[:8])}, nil
}

// check fails where a cursor leads nowhere in this feed. One without a mark is
// believed as long as its number is given.
func (v *visit) check(ctx context.Context, at feed.Cursor) error {
	now, err := v.cursor(ctx, at.Since)
	switch {
	case errors.Is(err, ErrFuture) && at.Mark != "":
		return fmt.Errorf("%w: the last number is %d", ErrOtherFeed, v.snap.Last())
	case err != nil:
		return err
	case at.Mark != "" && at.Mark != now.Mark:
		return ErrOtherFeed
	}
	return nil
}

// waitStep is how often who waits for changes looks for them.
const waitStep = 500 * time.Millisecond

// Changes gives up to limit events of the account's scope and the selection behind
// a cursor. Where there are none it waits for some, up to wait or until stop is
// closed. It fails with ErrFuture or ErrOtherFeed where the cursor leads nowhere.
func (l *Library) Changes(ctx context.Context, a *account.Account, q Selection, at feed.Cursor, limit int, wait time.Duration, stop <-chan struct{}) (feed.Page, error) {
	deadline := time.Now().Add(wait)
	for seen := int64(-1); ; {
		page, err := l.changes(ctx, a, q, at, limit, &seen)
		if err != nil || len(page.Events) > 0 || page.More || time.Until(deadline) <= 0 {
			return page, err
		}
		select {
		case <-ctx.Done():
			return feed.Page{}, ctx.Err()
		case <-stop:
			return page, nil
		case <-time.After(min(waitStep, time.Until(deadline))):
		}
	}
}

// changes looks once; where the feed still ends at seen it does not read it again.
func (l *Library) changes(ctx context.Context, a *account.Account, q Selection, at feed.Cursor, limit int, seen *int64) (feed.Page, error) {
	v, err := l.visit(ctx, a)
	if err != nil {
		return feed.Page{}, err
	}
	defer func() { v.snap.Release() }()
	if at.Since > v.snap.Last() && l.Lag > 0 { // another process may have given the number just now
		newest, err := l.Catalog.Pin(ctx)
		if err != nil {
			return feed.Page{}, fmt.Errorf("serve: %w", err)
		}
		v.snap.Release()
		v.snap = newest
	}
	if *seen < 0 {
		if err := v.check(ctx, at); err != nil {
			return feed.Page{}, fmt.Errorf("changes since %d: %w", at.Since, err)
		}
	}
	page := feed.Page{Events: []feed.Event{}, Next: at, Last: v.snap.Last()}
	if *seen == page.Last {
		return page, nil
	}
	*seen = page.Last
	events, last, err := v.feed(q).events(ctx, at.Since, limit)
	if err != nil {
		return feed.Page{}, err
	}
	page.Events, page.More = append(page.Events, events...), last < page.Last
	page.Next, err = v.cursor(ctx, last)
	return page, err
}
