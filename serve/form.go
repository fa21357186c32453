package serve

import (
	"strings"

	"sheaf/archive"
)

// form is one way in which an archive is offered.
type form struct {
	suffix string
	kind   archive.ViewKind // empty: it is put together of a WARC view and more
	media  string
	listed bool
}

// The forms that are made of the WARC view.
const (
	formCDXJ = ".cdxj"
	formWACZ = ".wacz"
)

// formWARC is the form that .cdxj is the index of.
const formWARC = 3

var forms = [...]form{
	{".members.tar.gz", archive.Members, "application/gzip", false}, // before .tar.gz, which it ends with
	{".tar.gz", archive.Single, "application/gzip", true},
	{".others.warc.gz", viewOthers, "application/gzip", true}, // before .warc.gz, likewise
	formWARC: {".warc.gz", archive.WARC, "application/gzip", true},
	{formCDXJ, "", "text/plain; charset=utf-8", false},
	{formWACZ, "", "application/wacz", false},
	{".links.gz", archive.Links, "application/gzip", true},
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
