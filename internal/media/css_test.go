package media_test

import (
	"slices"
	"testing"

	"sheaf/internal/media"
)

func TestRefs(t *testing.T) {
	t.Parallel()
	for sheet, want := range map[string][]string{
		`a{background:url(a.png)} b{background:URL( "b.png" )} c{background:url('c.png')}`: {"a.png", "b.png", "c.png"},
		`@import "a.css"; @IMPORT 'b.css' print; @import url(c.css);`:                      {"a.css", "b.css", "c.css"},
		`/* url(no.png) */ a{b:url(a.png)} /* url(no.png)`:                                 {"a.png"},
		`a{content:"url(no.png)"} b{c:url(b.png)}`:                                         {"b.png"},
		`a{b:image-set("a.png" 1x, url(b.png) 2x, "c.avif" type("image/avif"))} d{e:"no"}`: {"a.png", "b.png", "c.avif"},
		`a{b:-webkit-image-set("a.png" 1x)}`:                                               {"a.png"},
		`a{b:url(a\20 b.png)} c{d:url("a\29.png")} e{f:url(a\).png)} g{h:url(a\  )}`:       {"a b.png", "a).png", "a).png", "a "},
		`a{b:url("\65E5\672C.png")}`:                                                       {"日本.png"},
		"a{b:url(\"x\ny.png\")}\nc{d:url(e.png)}":                                          {"e.png"},
		`a{b:url(endless`: nil,
		`@import`:         nil,
	} {
		var got []string
		for r := range media.StyleRefs([]byte(sheet), nil) {
			got = append(got, media.UnescapeStyle(string(r.Raw)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s\ngot  %q\nwant %q", sheet, got, want)
		}
	}
}

func FuzzRefs(f *testing.F) {
	f.Add([]byte(`a{b:url(x)} @import "y"; c{d:image-set("z" 1x)}`))
	f.Fuzz(func(t *testing.T, sheet []byte) {
		at := 0
		for r := range media.StyleRefs(sheet, func(c byte) bool { return c >= 0x81 }) {
			if r.Start < at || r.End <= r.Start || r.End > len(sheet) || len(r.Raw) == 0 {
				t.Fatalf("%q: %+v after %d", sheet, r, at)
			}
			at = r.End
			media.UnescapeStyle(string(r.Raw))
		}
	})
}
