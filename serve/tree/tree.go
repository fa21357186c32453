// Package tree is the tree of files that consumers see by every protocol. A path means the same by
// FTP, under /pub/ by HTTP and by every later protocol, because all of them ask the same Tree:
//
//	/README                          what is where, for people
//	/LATEST                          name of the newest edition
//	/ls-lR.gz                        files of all editions of all hosts; not listed
//	/editions/20261121/HOSTS         hosts of which the edition brought something
//	/editions/20261121/MANIFEST      its files: size, digest, ETag, provenance; JSON lines
//	/editions/20261121/SHA256SUMS    digests of its files, for sha256sum -c
//	/editions/20261121/ls-lR.gz      its files, as ls -lR lists them
//	/editions/20261121/00001/…       the same in shards, if the edition has very many hosts
//	/days/20261121/jp/               what that day's editions brought of a domain, in volumes
//	    00001.tar.gz, 00001.warc.gz      of about 1 GiB: see library.Volume
//	    00001.jsonl                      its hosts, and where each lies
//	    00001.records.parquet, .hosts.parquet, .links.parquet    tables of what it has
//	    00001.texts.parquet, .wet.gz     the texts of its pages: see package texts
//	    changes.jsonl.gz, changes.parquet    what the day changed: see library.DayChange
//	    MANIFEST                         whether the day is complete, and these files: size,
//	                                     digest, ETag; JSON lines
//	/current/20261121/jp/            the latest version of every page of the domain then, in such
//	    00001.tar.gz, …                  volumes; of domains that the operator chooses
//	    00001.links.parquet, .inlinks.parquet, .linkhosts.parquet    where its pages lead, by page
//	                                     and by target, and which hosts link to which
//	/feed/LATEST, /feed/000000/…     what was published and withdrawn, by number: see package api
//	/jp/ac/waseda/www/               a host, by its reversed name, and beside it the hosts below it
//	    20261121.tar.gz              what the edition brought of the host; immutable once listed
//	    20261121.warc.gz
//	    current.tar.gz, .warc.gz     the latest version of every page
//	    all.tar.gz, .warc.gz         everything, in order of publication
//	    20261121.links.gz, all.…     links of its pages: source, target, kind, rel, text
//	    20261121.others.warc.gz, all.…   imported records that are no answers
//	    MANIFEST, SHA256SUMS
//
// Every domain has volumes, /days/20261121/jp/ac/ too, but only those of top-level domains are
// listed.
//
// Some files are there but not listed, so that a mirror does not fetch everything five times. These
// are current.links.gz, the texts of a host (20261121.texts.parquet and .wet.gz, also of all), and
// three more forms of each archive: .members.tar.gz has the stored bytes themselves, one gzip
// member a header and a body; .cdxj is the index of the records; .wacz has records and index for a
// player. An archive of several days is not listed either: 20261101-20261121.warc.gz is what the
// editions of these days brought.
//
// A directory that would list more than ten thousand hosts is divided by first letters, such as
// /jp/ne/blog/a+/aki/: see level.go. The plain path is always valid, too.
//
// Every call sees one version of the catalog, which is pinned for as long as the call, the listing
// or the open file lasts. A publication meanwhile changes nothing that is being read.
package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"strings"

	"sheaf/internal/api"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// Options of a Tree. Archive and Access are required.
type Options struct {
	Archive *library.Library
	Access  *account.Access

	// Texts writes the texts of a host's pages in a form of VolumeTexts; nil: hosts have none.
	// Version is the version of their extraction.
	Texts   func(ctx context.Context, a *account.Account, h *library.Host, form string, to io.Writer) error
	Version int

	// ChangeTable begins the table of what a day changed; nil: days have none.
	ChangeTable func(io.Writer) ChangeTable

	Contact string // address for questions, for /README; may be empty
	Widest  int    // limit for the entries of a directory, above which it is divided; default 10,000

	// VolumeBytes is about how large volumes get; default 1 GiB. Another value changes which volume
	// has what, so it is for tests.
	VolumeBytes int64
}

// Tree is the tree, read-only. All methods may be called concurrently. Paths are separated by
// slashes and begin at the root; a slash at the end means nothing. A path at which there is nothing
// for the account gives library.ErrNotFound.
type Tree struct {
	opt Options
}

const (
	defaultWidest = 10_000
	defaultVolume = 1 << 30
)

// New returns the tree of opt.Archive. Where opt has defaults, it applies them.
func New(opt Options) *Tree {
	opt.Widest = cmp.Or(opt.Widest, defaultWidest)
	opt.VolumeBytes = cmp.Or(opt.VolumeBytes, defaultVolume)
	return &Tree{opt: opt}
}

// Stat describes the file or directory at a path.
func (t *Tree) Stat(ctx context.Context, a *account.Account, name string) (library.Node, error) {
	v, err := t.opt.Archive.View(ctx, a)
	if err != nil {
		return library.Node{}, err
	}
	defer v.Release()
	e, err := t.find(ctx, v, name)
	if err != nil {
		return library.Node{}, pathError("stat", name, err)
	}
	return e.Node, nil
}

// List yields the entries of a directory: the directories in it by name, then its files; at the
// root /README and /LATEST come first. It does not hold them in memory. An error ends it.
func (t *Tree) List(ctx context.Context, a *account.Account, name string) iter.Seq2[library.Node, error] {
	return func(yield func(library.Node, error) bool) {
		err := t.list(ctx, a, name, func(n library.Node) error {
			if !yield(n, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(library.Node{}, pathError("list", name, err))
		}
	}
}

func (t *Tree) list(ctx context.Context, a *account.Account, name string, emit func(library.Node) error) error {
	v, err := t.opt.Archive.View(ctx, a)
	if err != nil {
		return err
	}
	defer v.Release()
	e, err := t.find(ctx, v, name)
	if err != nil {
		return err
	}
	if !e.Dir {
		return fmt.Errorf("is a file: %w", library.ErrNotFound)
	}
	return e.List(ctx, emit)
}

// Open opens the file at a path. Outside the account's window it fails with an
// *account.ClosedError, and if the day's bytes are used up with a *account.QuotaError; but
// /README and what is below /feed may always be read.
func (t *Tree) Open(ctx context.Context, a *account.Account, name string) (*library.File, error) {
	v, err := t.opt.Archive.View(ctx, a)
	if err != nil {
		return nil, err
	}
	e, err := t.find(ctx, v, name)
	if err != nil {
		v.Release()
		return nil, pathError("open", name, err)
	}
	f, err := library.Open(ctx, e, t.opt.Access, a, v.Release)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return f, nil
}

func cleanPath(name string) string { return path.Clean("/" + name) }

func pathError(op, name string, err error) error {
	return fmt.Errorf("%s %s: %w", op, cleanPath(name), err)
}

// find finds what is at a path.
func (t *Tree) find(ctx context.Context, v *library.AccountView, name string) (*library.Entry, error) {
	return (&finder{t, v}).find(ctx, strings.TrimPrefix(cleanPath(name), "/"))
}

// find finds what is at a clean path without the slash before it.
func (f *finder) find(ctx context.Context, name string) (*library.Entry, error) {
	first, rest, deep := strings.Cut(name, "/")
	switch {
	case name == "":
		return f.root(), nil
	case !deep && (first == fileReadme || first == fileLatest || first == fileListing):
		return f.rootText(ctx, first)
	case first == dirEditions:
		return f.findEdition(ctx, rest)
	case first == dirDays:
		return f.findDay(ctx, rest)
	case first == dirCurrent:
		return f.findCurrent(ctx, rest)
	case first == api.Dir:
		return f.findFeed(ctx, rest)
	}
	dir, base := path.Split(name)
	archived, form, texts := cutTexts(base)
	if texts || library.IsName(base) {
		place, letters, ok := unfan(strings.TrimSuffix(dir, "/"))
		if !ok || letters != "" {
			return nil, library.ErrNotFound
		}
		if texts {
			return f.hostTexts(ctx, place, archived, form)
		}
		return f.hostFile(ctx, place, base)
	}
	place, letters, ok := unfan(name)
	switch {
	case !ok:
		return nil, library.ErrNotFound
	case letters != "":
		return f.fanDirectory(ctx, place, letters)
	}
	return f.levelDirectory(ctx, place)
}

// root returns the root directory. It does not list /ls-lR.gz, nor directories that have nothing
// yet.
func (f *finder) root() *library.Entry {
	return f.directory("/", func(ctx context.Context, emit func(library.Node) error) error {
		for _, name := range []string{fileReadme, fileLatest, dirCurrent, dirDays, dirEditions, api.Dir} {
			e, err := f.find(ctx, name)
			if library.IsNotFound(err) {
				continue
			}
			if err != nil {
				return err
			}
			if err := emit(e.Node); err != nil {
				return err
			}
		}
		return f.children(ctx, "", "", emit)
	})
}

// rootText returns README, or LATEST or ls-lR.gz once there is an edition.
func (f *finder) rootText(ctx context.Context, name string) (*library.Entry, error) {
	const media = "text/plain; charset=utf-8"
	if name == fileReadme {
		text, err := f.readme()
		return always(library.Text(name, media, readmeDate, text), err)
	}
	editions, err := f.view.Snap.Editions(ctx)
	if err != nil {
		return nil, err
	}
	if len(editions) == 0 {
		return nil, library.ErrNotFound
	}
	if name == fileListing {
		return f.listingOfAll(ctx)
	}
	newest := editions[len(editions)-1]
	return library.Text(name, media, newest.Published, []byte(newest.Name+"\n")), nil
}

// The names of the texts at the root and of the editions, besides those of package library.
const (
	fileReadme  = "README"
	fileLatest  = "LATEST"
	fileHosts   = "HOSTS"
	fileListing = "ls-lR.gz"
)

// finder finds paths in one view.
type finder struct {
	tree *Tree
	view *library.AccountView
}

// errStop ends a listing before its end.
var errStop = errors.New("stop")

// directory returns the entry of a directory that may have changed with the version.
func (f *finder) directory(name string, list library.List) *library.Entry {
	return library.Directory(name, f.view.Snap.Published(), list)
}

// listNames emits the node that find finds for each name. It ends with the first error.
func listNames(ctx context.Context, names []string, emit func(library.Node) error, find func(context.Context, string) (*library.Entry, error)) error {
	for _, name := range names {
		e, err := find(ctx, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := emit(e.Node); err != nil {
			return err
		}
	}
	return nil
}

// always lets an entry be read while the account's window is closed.
func always(e *library.Entry, err error) (*library.Entry, error) {
	if err == nil {
		e.Always = true
	}
	return e, err
}
