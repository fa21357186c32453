package library

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

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/internal/api"
	"sheaf/serve/account"
)

// Errors of cursors.
var (
	// ErrFuture says that a cursor's number has not been given yet.
	ErrFuture = catalog.ErrFuture
	// ErrOtherFeed says that a cursor belongs to another feed: the archive was restored to an older
	// state, or the account's scope or access rules have changed.
	ErrOtherFeed = errors.New("the cursor is not of this feed")
)

// hostSet is one part of a selection or of a scope.
type hostSet struct {
	prefix string // of the keys of all its hosts
	holds  func(host, key string) bool
}

// partsOf returns the parts of a selection. An empty selection has every host.
func partsOf(q api.Selection) (parts []hostSet) {
	for _, prefix := range q.SURT {
		parts = append(parts, hostSet{prefix, func(_, key string) bool { return strings.HasPrefix(key, prefix) }})
	}
	for _, domain := range q.Domains {
		parts = append(parts, below(naming.HostPath(domain)))
	}
	for _, name := range q.Hosts {
		parts = append(parts, hostSet{catalog.Key(name), func(host, _ string) bool { return host == name }})
	}
	if len(parts) == 0 {
		parts = append(parts, below(""))
	}
	return parts
}

// below returns all hosts at and under a place of the tree.
func below(root string) hostSet {
	return hostSet{account.KeyPrefix(root), func(host, _ string) bool { return account.Within(naming.HostPath(host), root) }}
}

// Reader reads the change feed from one view.
type Reader struct {
	view     *AccountView
	prefixes []string // of the keys of hosts that are wanted; none is a prefix of another
	scope    []hostSet
	wanted   []hostSet
}

// NewReader returns a reader of the changes of those selected hosts that are in the view's scope.
func NewReader(v *AccountView, q api.Selection) *Reader {
	r := &Reader{view: v, wanted: partsOf(q)}
	var prefixes []string
	for _, root := range v.Scope {
		s := below(root)
		r.scope = append(r.scope, s)
		for _, p := range r.wanted {
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

func (r *Reader) holds(host, key string) bool {
	holds := func(s hostSet) bool { return s.holds(host, key) }
	return slices.ContainsFunc(r.scope, holds) && slices.ContainsFunc(r.wanted, holds)
}

// Events returns up to limit events with numbers above since. last is the number up to which the
// events are complete.
func (r *Reader) Events(ctx context.Context, since int64, limit int) (events []api.Event, last int64, err error) {
	var changes []catalog.Change
	last = r.view.Snap.Last()
	for _, prefix := range r.prefixes {
		some, to, err := r.view.Snap.Changes(ctx, since, prefix, limit)
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
		if hidden, err := r.hides(ctx, c); hidden || err != nil {
			if err != nil {
				return nil, since, err
			}
			continue
		}
		e := api.Event{
			Seq: c.Seq, At: c.At.UTC(), Version: c.Version,
			Host: host, SURT: catalog.Key(host), Path: "/" + naming.HostPath(host) + "/",
		}
		shown := true
		switch {
		case c.Entry != nil:
			err = r.describeSegment(ctx, &e, changes, i)
		case c.Expiry != nil:
			err = r.describeExpiry(ctx, &e, c.Expiry)
		default:
			shown = describeTombstone(&e, c.Tombstone)
		}
		if err != nil {
			return nil, since, err
		}
		if shown {
			events = append(events, e)
		}
	}
	return events, last, nil
}

// hides reports whether the account must not be told of a withdrawal or an expiry, because it does
// not see the host or the pages.
func (r *Reader) hides(ctx context.Context, c catalog.Change) (bool, error) {
	if c.Entry != nil {
		return false, nil
	}
	host := hostOfChange(c)
	if t := c.Tombstone; t != nil && t.URLPrefix != "" && r.view.Veil.HidesSome(host, t.URLPrefix) {
		return true, nil // the event would have the prefix
	}
	return r.view.HidesWithdrawal(ctx, host)
}

// HidesWithdrawal reports whether the account must not be told of a host's take-downs, their ends,
// erasures and expiries, because it does not see the host.
func (v *AccountView) HidesWithdrawal(ctx context.Context, host string) (bool, error) {
	if v.Veil.HidesHost(host) {
		return true, nil
	}
	down := slices.ContainsFunc(v.Snap.Tombstones(host), func(t catalog.Tombstone) bool { return t.Act == catalog.TakeDown && t.Whole() })
	if down || !v.Veil.Touches(catalog.Key(host)) {
		return false, nil
	}
	h, err := v.Host(ctx, naming.HostPath(host))
	return h == nil, err
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

// describeSegment describes the publication of a segment. It gives the edition's files with their
// digests if the edition has no other segment of the host, and no record may be withheld. The
// numbers of one host's segments in one edition follow one another, so the changes before and after
// this one show its other segments. At both ends of what was read, it asks the catalog.
func (r *Reader) describeSegment(ctx context.Context, e *api.Event, changes []catalog.Change, i int) error {
	seg := changes[i].Entry
	e.Op, e.Edition = api.Put, seg.Edition
	e.Batch, e.Robot, e.Records, e.First, e.Last = seg.Batch, seg.Robot, seg.Records, seg.First.UTC(), seg.Last.UTC()
	if r.view.Veil.MayHide(*seg) {
		return nil
	}
	e.Preferences = seg.Preferences
	if slices.ContainsFunc(r.view.Snap.Tombstones(seg.Host), func(t catalog.Tombstone) bool { return t.URLPrefix != "" }) {
		return nil
	}
	same := func(n int) bool {
		o := changes[n].Entry
		return o != nil && o.Host == seg.Host && o.Edition == seg.Edition
	}
	first, end := i == 0, i == len(changes)-1
	if !first && same(i-1) || !end && same(i+1) {
		return nil
	}
	if first || end {
		segments, err := r.view.Snap.HostEdition(ctx, seg.Host, seg.Edition)
		if err != nil || len(segments) > 1 {
			return err
		}
	}
	e.Files = ListedFiles(*seg)
	return nil
}

func (r *Reader) describeExpiry(ctx context.Context, e *api.Event, x *catalog.Expiry) error {
	e.Op, e.Edition, e.Why = api.Delete, x.Edition, "expired"
	left, err := r.view.Snap.HostEdition(ctx, x.Host, x.Edition)
	if len(left) > 0 {
		e.Op = api.Reseal
	}
	return err
}

// describeTombstone describes a take-down or its end, and reports whether readers see a difference.
// It leaves out who decided, and why.
func describeTombstone(e *api.Event, t *catalog.Tombstone) bool {
	e.Edition, e.URLPrefix = t.Edition, t.URLPrefix
	switch {
	case t.Act == catalog.Erase:
		return false
	case t.Act == catalog.Lift:
		e.Op, e.Why = api.Reseal, "lifted"
	case t.URLPrefix != "" || t.Collection != "":
		e.Op, e.Why = api.Reseal, "takedown"
	default:
		e.Op, e.Why = api.Delete, "takedown"
	}
	return true
}

// Cursor returns the account's cursor behind a number. For 0 it is the zero cursor.
func Cursor(ctx context.Context, v *AccountView, seq int64) (api.Cursor, error) {
	m, err := v.Snap.Checkpoint(ctx, seq)
	if err != nil || seq == 0 {
		return api.Cursor{}, err
	}
	sight := fmt.Sprintf("%s %q", m.Digest, v.Scope) + v.Veil.Mark()
	sum := sha256.Sum256([]byte(sight))
	return api.Cursor{Since: seq, Mark: hex.EncodeToString(sum[:8])}, nil
}

// check fails with ErrFuture or ErrOtherFeed if a cursor does not belong to the feed. A cursor
// without a mark is accepted if its number has been given.
func check(ctx context.Context, v *AccountView, at api.Cursor) error {
	now, err := Cursor(ctx, v, at.Since)
	switch {
	case errors.Is(err, ErrFuture) && at.Mark != "":
		return fmt.Errorf("%w: the last number is %d", ErrOtherFeed, v.Snap.Last())
	case err != nil:
		return err
	case at.Mark != "" && at.Mark != now.Mark:
		return ErrOtherFeed
	}
	return nil
}

// Feed is the change feed of an archive. Its methods may be called concurrently.
type Feed struct{ Archive *Library }

// pollEvery is the interval at which Wait looks for changes.
const pollEvery = 500 * time.Millisecond

// Wait returns up to limit events behind a cursor, about the selected hosts in the account's scope.
// If there is no event, it blocks until an event comes, the duration wait has passed or stop is
// closed. It fails with ErrFuture or ErrOtherFeed if the cursor leads nowhere.
func (f *Feed) Wait(ctx context.Context, a *account.Account, q api.Selection, at api.Cursor, limit int, wait time.Duration, stop <-chan struct{}) (api.Page, error) {
	deadline := time.Now().Add(wait)
	for seen := int64(-1); ; {
		page, err := f.read(ctx, a, q, at, limit, &seen)
		if err != nil || len(page.Events) > 0 || page.More || time.Until(deadline) <= 0 {
			return page, err
		}
		select {
		case <-ctx.Done():
			return api.Page{}, ctx.Err()
		case <-stop:
			return page, nil
		case <-time.After(min(pollEvery, time.Until(deadline))):
		}
	}
}

// read reads the feed once. It sets seen to the feed's last number. If that number is the same as
// before, it returns no events.
func (f *Feed) read(ctx context.Context, a *account.Account, q api.Selection, at api.Cursor, limit int, seen *int64) (api.Page, error) {
	v, err := f.Archive.View(ctx, a)
	if err != nil {
		return api.Page{}, err
	}
	defer func() { v.Release() }()
	if at.Since > v.Snap.Last() && f.Archive.Lag > 0 { // another process may have given the number just now
		newest, err := f.Archive.Newest(ctx, a)
		if err != nil {
			return api.Page{}, err
		}
		v.Release()
		v = newest
	}
	if *seen < 0 {
		if err := check(ctx, v, at); err != nil {
			return api.Page{}, fmt.Errorf("changes since %d: %w", at.Since, err)
		}
	}
	page := api.Page{Events: []api.Event{}, Next: at, Last: v.Snap.Last()}
	if *seen == page.Last {
		return page, nil
	}
	*seen = page.Last
	events, last, err := NewReader(v, q).Events(ctx, at.Since, limit)
	if err != nil {
		return api.Page{}, err
	}
	page.Events, page.More = append(page.Events, events...), last < page.Last
	page.Next, err = Cursor(ctx, v, last)
	return page, err
}
