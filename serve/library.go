package serve

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/archive/urlindex"
	"sheaf/serve/account"
	"sheaf/serve/bandwidth"
	"sheaf/serve/feed"
)

// Options of a Library. Catalog and Store are needed.
type Options struct {
	Catalog *catalog.Catalog
	Store   store.Store

	Accounts *account.Accounts // whose accounts these are, to learn what becomes different of them; nil: nothing does
	Meter    *bandwidth.Meter  // of what all read; default: one that counts in this process only

	URLs *urlindex.Reader // finds records by URL; nil: the segments' own indexes do
	Log  *slog.Logger     // default: discards

	Grace      time.Duration // how long a download goes on after the account's window has closed; default account.DefaultGrace
	CacheBytes int64         // bound on cached indexes and views; default 256 MiB
	Contact    string        // whom to ask, for /README; may be empty
	Widest     int           // entries that a directory lists at most before it is fanned out; default 10,000
	Lag        time.Duration // how old the newest version may be that a visit sees, of what other processes publish and take down; default 0
}

const (
	defaultCache = 256 << 20
	defaultWide  = 10_000
)

// Library is the one tree, read-only. All methods may be called from many
// goroutines at once. Paths are slash-separated and begin at the root; a slash at
// the end means nothing. What is not there, or not there for the account, is
// ErrNotFound.
type Library struct {
	Options
	Access   *account.Access
	cache    *cache
	spools   *cache
	spooling chan struct{} // holds an element for each spool that is being written
	damaged  atomic.Int64  // see Damaged
}

// NewLibrary makes a library over a catalog and the store that its segments lie in.
func NewLibrary(opt Options) (*Library, error) {
	if opt.Catalog == nil || opt.Store == nil {
		return nil, errors.New("serve: a library needs a catalog and a store")
	}
	if opt.Grace == 0 {
		opt.Grace = account.DefaultGrace
	}
	if opt.Meter == nil {
		opt.Meter = bandwidth.New(bandwidth.Options{})
	}
	if opt.Widest == 0 {
		opt.Widest = defaultWide
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.CacheBytes == 0 {
		opt.CacheBytes = defaultCache
	}
	access := &account.Access{Accounts: opt.Accounts, Meter: opt.Meter, Grace: opt.Grace}
	return &Library{Options: opt, Access: access, cache: newCache(opt.CacheBytes), spools: newCache(spoolBytes), spooling: make(chan struct{}, 1)}, nil
}

// visit is one account's look at one version of the catalog.
type visit struct {
	*Library
	snap    *catalog.Snapshot
	account *account.Account
	scope   account.Scope

	urlIndex struct { // see urls
		sync.Once
		view *urlindex.View
	}
}

func (l *Library) visit(ctx context.Context, a *account.Account) (*visit, error) {
	snap, err := l.Catalog.PinWithin(ctx, l.Lag)
	if err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	return &visit{Library: l, snap: snap, account: a, scope: a.Scope()}, nil
}

// Stat describes the file or directory at a path.
func (l *Library) Stat(ctx context.Context, a *account.Account, name string) (Node, error) {
	v, err := l.visit(ctx, a)
	if err != nil {
		return Node{}, err
	}
	defer v.snap.Release()
	e, err := v.find(ctx, path.Clean("/"+name))
	if err != nil {
		return Node{}, pathError("stat", name, err)
	}
	return e.Node, nil
}

// List yields what a directory holds: the directories in it by name, then its
// files. Nothing of what it yields is held; an error ends it.
func (l *Library) List(ctx context.Context, a *account.Account, name string) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		v, err := l.visit(ctx, a)
		if err != nil {
			yield(Node{}, err)
			return
		}
		defer v.snap.Release()
		for n, err := range v.list(ctx, path.Clean("/"+name)) {
			if err != nil {
				err = pathError("list", name, err)
			}
			if !yield(n, err) || err != nil {
				return
			}
		}
	}
}

// Open opens the file at a path. Outside the account's window it fails with a
// *account.ClosedError, and where the day's bytes are used up with a *bandwidth.QuotaError,
// except for /README. The account may have changed since it was logged in: where
// Accounts is set, it is asked what holds now, for as long as the file is open.
func (l *Library) Open(ctx context.Context, a *account.Account, name string) (_ *File, err error) {
	v, err := l.visit(ctx, a)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			v.snap.Release()
		}
	}()
	e, err := v.find(ctx, path.Clean("/"+name))
	if err != nil {
		return nil, pathError("open", name, err)
	}
	if e.Dir {
		return nil, pathError("open", name, ErrIsDirectory)
	}
	f := &File{Node: e.Node, release: v.snap.Release}
	if !e.always {
		if f.permit, err = l.Access.Begin(ctx, a); err != nil {
			return nil, pathError("open", name, err)
		}
	}
	if f.content, err = e.open(ctx); err != nil {
		if f.permit != nil {
			f.permit.Close()
		}
		return nil, pathError("open", name, err)
	}
	return f, nil
}

func pathError(op, name string, err error) error {
	return fmt.Errorf("%s %s: %w", op, path.Clean("/"+name), err)
}

// entry is a file or directory that was found.
type entry struct {
	Node
	always bool                                  // may be read while the window is closed
	open   func(context.Context) (ranges, error) // files only
}

// find resolves a clean path.
func (v *visit) find(ctx context.Context, name string) (*entry, error) {
	dir, base := path.Split(name)
	dir = strings.Trim(dir, "/")
	switch {
	case name == "/":
		return v.directory("/", v.snap.Published()), nil
	case dir == "" && (base == fileReadme || base == fileLatest || base == fileLong):
		return v.rootFile(ctx, base)
	case dir == "" && base == dirEditions:
		return v.directory(base, v.snap.Published()), nil
	case name == "/"+feed.Dir || strings.HasPrefix(name, "/"+feed.Dir+"/"):
		return v.feedEntry(ctx, strings.TrimPrefix(name, "/"))
	case dir == dirEditions || strings.HasPrefix(dir, dirEditions+"/"):
		parts := strings.Split(name, "/")[2:]
		ed, err := v.edition(ctx, parts[0])
		switch {
		case err != nil:
			return nil, err
		case len(parts) == 1:
			return v.directory(base, ed.Published), nil
		}
		return v.editionPlace(ctx, ed, parts[1:])
	case isHostFile(base):
		place, letters, ok := unfan(dir)
		if !ok || letters != "" {
			return nil, ErrNotFound
		}
		return v.hostFile(ctx, place, base)
	}
	place, letters, ok := unfan(strings.TrimPrefix(name, "/"))
	switch {
	case !ok:
		return nil, ErrNotFound
	case letters != "":
		return v.fanDirectory(ctx, place, letters)
	}
	return v.treeDirectory(ctx, place)
}

func (v *visit) directory(name string, modified time.Time) *entry {
	return &entry{Node: Node{Name: name, Dir: true, Modified: whole(modified)}}
}

// list yields what a directory holds.
func (v *visit) list(ctx context.Context, name string) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		e, err := v.find(ctx, name)
		if err == nil && !e.Dir {
			err = fmt.Errorf("is a file: %w", ErrNotFound)
		}
		if err != nil {
			yield(Node{}, err)
			return
		}
		place := strings.TrimPrefix(name, "/")
		var parts []iter.Seq2[Node, error]
		switch {
		case place == "":
			parts = append(parts, v.rootFiles(ctx), v.treeChildren(ctx, "", ""))
		case place == dirEditions:
			parts = append(parts, v.editions(ctx))
		case strings.HasPrefix(place, dirEditions+"/"):
			names := strings.Split(place, "/")[1:]
			ed, err := v.edition(ctx, names[0])
			if err != nil {
				yield(Node{}, err)
				return
			}
			parts = append(parts, v.editionEntries(ctx, ed, names[1:]))
		case place == feed.Dir || strings.HasPrefix(place, feed.Dir+"/"):
			parts = append(parts, v.feedEntries(ctx, place))
		default:
			place, letters, _ := unfan(place) // was found
			parts = append(parts, v.treeChildren(ctx, place, letters))
			if letters == "" {
				parts = append(parts, v.hostFiles(ctx, place))
			}
		}
		for _, part := range parts {
			for n, err := range part {
				if !yield(n, err) || err != nil {
					return
				}
			}
		}
	}
}

// whole is a time as every protocol can show it.
func whole(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
