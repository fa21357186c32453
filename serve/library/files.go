package library

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/api"
	"sheaf/internal/wire"
)

// Files calls emit with all files of the host that its directory lists. There may be tens of
// thousands; none of them is kept.
func (h *Host) Files(ctx context.Context, emit func(Node) error) error {
	for a := range h.all() {
		err := a.files(ctx, func(e *Entry, _ Form) error {
			e.Fixed = a.isEdition()
			return emit(e.Node)
		})
		if err != nil {
			return err
		}
	}
	for _, name := range []string{Manifest, Sums} {
		e, err := h.File(ctx, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := emit(e.Node); err != nil {
			return err
		}
	}
	return nil
}

// File returns the file of a name in the host's directory, listed or not. It fails with
// ErrNotFound.
func (h *Host) File(ctx context.Context, name string) (*Entry, error) {
	switch name {
	case Manifest:
		return h.text(ctx, name, "application/x-ndjson", Archive.WriteManifest)
	case Sums:
		return h.text(ctx, name, "text/plain; charset=utf-8", func(a Archive, ctx context.Context, w io.Writer, prefix string) error {
			if !a.isEdition() { // these change, and yesterday's digest would mislead
				return nil
			}
			return a.WriteSums(ctx, w, prefix)
		})
	}
	base, f, ok := cutForm(name)
	if !ok {
		return nil, ErrNotFound
	}
	a := h.Named(base)
	if len(a.segments) == 0 {
		return nil, ErrNotFound
	}
	e, err := a.file(ctx, f)
	if err == nil {
		e.Fixed = slices.ContainsFunc(h.Segments, func(seg catalog.SegmentEntry) bool { return seg.Edition == base })
	}
	return e, err
}

// text returns a text file with what write writes about each of the host's archives.
func (h *Host) text(ctx context.Context, name, media string, write func(Archive, context.Context, io.Writer, string) error) (*Entry, error) {
	modified := h.LastModified() // a MANIFEST has the files' times, too
	d := Document{Name: name, Type: media, Modified: modified, Key: h.Named(baseAll).key(fmt.Sprint(modified)), Spools: h.from.Spools}
	d.Write = func(ctx context.Context, w io.Writer) error {
		for a := range h.all() {
			if err := write(a, ctx, w, ""); err != nil {
				return err
			}
		}
		return nil
	}
	return d.Entry(ctx, h.from.Memo)
}

// files calls f with each of the archive's files that directories list, and its form.
func (a Archive) files(ctx context.Context, f func(*Entry, Form) error) error {
	for _, form := range forms {
		if !a.lists(form) {
			continue
		}
		e, err := a.file(ctx, form)
		if err != nil {
			return fmt.Errorf("%s: %w", a.base+form.Suffix, err)
		}
		if err := f(e, form); err != nil {
			return err
		}
	}
	return nil
}

// lists reports whether directories list the archive in a form. They do not list current's links,
// since these are chosen from all that is stored and have a size only when they are written.
func (a Archive) lists(f Form) bool {
	switch f.Kind {
	case archive.Links:
		return a.anyLinks() && !a.latest
	case viewOthers:
		return a.anyOthers()
	}
	return f.listed
}

// file returns the archive's file in a form. It fails with ErrNotFound if the archive has no links,
// or no others.
func (a Archive) file(ctx context.Context, f Form) (*Entry, error) {
	switch {
	case f.Suffix == formCDXJ:
		return a.document(ctx, f, a.key(), a.writeCDXJ)
	case f.Kind == archive.Links:
		return a.links(ctx, f)
	case f.Kind == viewOthers:
		return a.others(ctx, f)
	}
	return a.computed(ctx, f)
}

// computed returns the file in a form, with its bytes from content. If the catalog knows the file's
// size and digest, they are not computed.
func (a Archive) computed(ctx context.Context, f Form) (*Entry, error) {
	modified, err := a.modified(ctx)
	if err != nil {
		return nil, err
	}
	e := &Entry{
		Node: Node{Name: a.base + f.Suffix, Modified: Seconds(modified), Type: f.Type},
		Open: func(ctx context.Context) (Ranges, error) { return a.content(ctx, f) },
	}
	v, known, err := a.view(ctx, f.Kind)
	if err != nil {
		return nil, err
	}
	if known {
		e.Size, e.ETag, e.SHA256 = v.Size, v.ETag, v.SHA256
		e.Object = a.object(f.Kind)
		return e, nil
	}
	in, err := a.content(ctx, f)
	if err != nil {
		return nil, err
	}
	e.Size, e.ETag = in.Size(), in.ETag()
	return e, nil
}

// object returns the key of the stored object that begins with the archive's file of a kind, or "".
// The catalog must know the file. Only two kinds are stored as they are served.
func (a Archive) object(kind archive.ViewKind) string {
	switch seg := a.segments[0]; {
	case kind == archive.Members && seg.Offset == 0:
		return seg.Object
	case kind == viewOthers && seg.Views[wire.ViewOthers].Offset == 0:
		return wire.OthersKey(wire.BatchID(seg.Batch))
	}
	return ""
}

// document returns the file in a form that is written when it is asked for.
func (a Archive) document(ctx context.Context, f Form, key string, write func(context.Context, io.Writer) error) (*Entry, error) {
	modified, err := a.modified(ctx)
	if err != nil {
		return nil, err
	}
	d := Document{Name: a.base + f.Suffix, Type: f.Type, Modified: modified, Key: key, Write: write, Spools: a.host.from.Spools}
	return d.Entry(ctx, a.host.from.Memo)
}

// WriteListings writes the part of an ls -lR about the editions' archives of the host, under place,
// the path in the listing. It gives each file's year instead of its hour, so that the text does not
// depend on when it is read.
func (h *Host) WriteListings(ctx context.Context, w io.Writer, place string) error {
	return writeListing(ctx, w, place, slices.Collect(h.editions())...)
}

// WriteListing is WriteListings for one archive.
func (a Archive) WriteListing(ctx context.Context, w io.Writer, place string) error {
	return writeListing(ctx, w, place, a)
}

func writeListing(ctx context.Context, w io.Writer, place string, archives ...Archive) error {
	if _, err := fmt.Fprintf(w, "./%s:\ntotal 0\n", place); err != nil {
		return err
	}
	for _, a := range archives {
		err := a.files(ctx, func(e *Entry, _ Form) error {
			_, err := fmt.Fprintf(w, "-r--r--r--   1 ftp      ftp      %12d %s %s\n", e.Size, e.Modified.Format("Jan _2  2006"), e.Name)
			return err
		})
		if err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w)
	return err
}

// Form is a file format in which archives are offered.
type Form struct {
	Suffix string           // such as ".tar.gz"
	Kind   archive.ViewKind // "" if it is made of the WARC view and more
	Type   string           // media type
	listed bool
}

// The forms that are made of the WARC view.
const (
	formCDXJ = ".cdxj"
	formWACZ = ".wacz"
)

// formWARC is the form that .cdxj indexes.
const formWARC = ".warc.gz"

// viewOthers is the kind of the file of others: see warc.go. archive.NewView does not know it.
const viewOthers = archive.ViewKind(wire.ViewOthers)

// forms are the forms of archives. A suffix that ends with another suffix stands before that
// suffix.
var forms = [...]Form{
	{".members.tar.gz", archive.Members, "application/gzip", false},
	{".tar.gz", archive.Single, "application/gzip", true},
	{".others.warc.gz", viewOthers, "application/gzip", true},
	{formWARC, archive.WARC, "application/gzip", true},
	{formCDXJ, "", "text/plain; charset=utf-8", false},
	{formWACZ, "", "application/wacz", false},
	{".links.gz", archive.Links, "application/gzip", true},
}

// cutForm divides the name of an archive into what comes before its form, and its form.
func cutForm(name string) (base string, f Form, ok bool) {
	for _, f := range forms {
		if base, ok := strings.CutSuffix(name, f.Suffix); ok && base != "" {
			return base, f, true
		}
	}
	return "", Form{}, false
}

// CutForm divides the name of an archive into what comes before its form, and its form's suffix.
func CutForm(name string) (base, suffix string, ok bool) {
	base, f, ok := cutForm(name)
	return base, f.Suffix, ok
}

// BundleForm returns the form with a suffix, if files of chosen records can have it.
func BundleForm(suffix string) (Form, bool) {
	for _, f := range forms {
		if f.Suffix == suffix && (f.Kind == archive.Members || f.Kind == archive.Single || f.Kind == archive.WARC) {
			return f, true
		}
	}
	return Form{}, false
}

// ListedFiles describes the files of a segment that directories list, as far as the catalog knows
// them. It is right only if the edition has no other segment of the host.
func ListedFiles(seg catalog.SegmentEntry) (files []api.File) {
	for _, f := range forms {
		if v, known := seg.Views[string(f.Kind)]; known && f.listed {
			files = append(files, api.File{Name: seg.Edition + f.Suffix, Size: v.Size, SHA256: v.SHA256, ETag: v.ETag})
		}
	}
	return files
}

// IsName reports whether a file in a host's directory can have this name. No directory below can
// have it too: hosts' labels have no dots and no capitals, and the directories of IP addresses have
// no such suffix.
func IsName(name string) bool {
	_, _, ok := cutForm(name)
	return ok || name == Manifest || name == Sums
}
