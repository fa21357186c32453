package polite

import (
	"bytes"
	"testing"
)

func TestLibrary(t *testing.T) {
	l := NewLibrary()
	share := func(text string) *Robots { return l.Share([]byte(text), Parse([]byte(text))) }
	none, private := share(""), share("User-agent: *\nDisallow: /private")
	if share("") != none || share("User-agent: *\nDisallow: /private") != private || none == private {
		t.Error("the same text has other rules, or another the same")
	}
	if !none.Allowed("sheafbot", "/private") || private.Allowed("sheafbot", "/private") {
		t.Error("shared rules say something else")
	}
	long := string(bytes.Repeat([]byte("# a comment\n"), libraryText/10))
	if first, second := share(long), share(long); first == second {
		t.Error("a long text is remembered")
	}
}
