package library

import (
	"strings"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/api"
	"sheaf/internal/wire"
)

// Form is a form in which an archive is offered.
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

// formWARC is the form that .cdxj is the index of.
const formWARC = ".warc.gz"

// viewOthers is the name of the others among a segment's views. archive.NewView does not know it.
const viewOthers = archive.ViewKind(wire.ViewOthers)

// forms are the forms of archives. A suffix that ends with another one stands before that one.
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

// IsName reports whether a file in a host's directory can have this name. No host's label looks
// like one: labels have no dots and no capitals, and the directories of IP addresses have no such
// suffix.
func IsName(name string) bool {
	_, _, ok := cutForm(name)
	return ok || name == Manifest || name == Sums
}
