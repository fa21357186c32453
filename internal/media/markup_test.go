package media_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"sheaf/internal/media"
	"sheaf/internal/weburl"
)

// tokens writes the tokens of a document: <name> of tags, /> of elements that end at once, text in
// brackets.
func tokens(doc string, xml bool) string {
	var b strings.Builder
	for z := media.NewTokenizer(strings.NewReader(doc), xml); ; {
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			return b.String()
		case html.TextToken:
			fmt.Fprintf(&b, "[%s]", z.Text())
		case html.StartTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			b.WriteString("<" + string(name) + map[bool]string{true: "/>", false: ">"}[kind == html.SelfClosingTagToken])
		case html.EndTagToken:
			b.WriteString("</>")
		}
	}
}

// TestTokens: in XML, and in the SVG of HTML, an element ends where its tag says so, and its text
// is markup.
func TestTokens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		doc  string
		xml  bool
		want string
	}{
		{`<script/><b/>&amp;`, true, `<script/><b/>[&]`},
		{`<script/><b/>&amp;`, false, `<script>[<b/>&amp;]`},
		{`<title>a<i>b</i></title>`, true, `<title>[a]<i>[b]</></>`},
		{`<title>a<i>b</i></title>`, false, `<title>[a<i>b</i>]</>`},
		{`<![CDATA[&amp;<b>]]>&lt;&nbsp;&nbsp&sect=&#65;&none;&`, true, "[&amp;<b>][<\u00a0&nbsp&sect=A&none;&]"},
		{`<svg><title/><![CDATA[&lt;]]>&copy</svg><title/>&lt;`, false, `<svg><title/>[&lt;][©]</><title>[<]`},
		{`<SVG/><style/><b>`, false, `<svg><style>[<b>]`},
		{`<svg><desc><style/><b></style></desc><style/></svg>`, false, `<svg><desc><style>[<b>]</></><style/></>`},
		{`<svg><p><style/><b>`, false, `<svg><p><style>[<b>]`},
		{`<math><mi/><svg></svg><title/></math><title/><b>`, false, `<math><mi/><svg></><title/></><title>[<b>]`},
	} {
		if got := tokens(c.doc, c.xml); got != c.want {
			t.Errorf("%s, XML %t: %s, want %s", c.doc, c.xml, got, c.want)
		}
	}
}

// TestAttribute: what looks like a reference in a query is none.
func TestAttribute(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"?a=1&section=2":         "?a=1&section=2",
		"?a&copy=2":              "?a&copy=2",
		"?a&copy2":               "?a&copy2",
		"?a&copy;=2":             "?a©=2",
		"?a&copy\"":              `?a©"`,
		"?a&amp;sect=8&#x41;&lt": "?a&sect=8A<",
		`"&'`:                    `"&'`,
	} {
		if got := media.AttributeValue(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestRoot(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		"\ufeff<?xml version='1.0'?>\n<!-- <a> -->\n<sm:URLset>":  "urlset",
		`<!DOCTYPE svg [<!ENTITY a "b"> <!ENTITY c "d">]> <svg/>`: "svg",
		"text <html>": "", "": "", "<!-- ": "",
	} {
		if got := media.RootElement([]byte(doc)); got != want {
			t.Errorf("%s: %q, want %q", doc, got, want)
		}
	}
}

// TestBases: an element's base holds until the element ends.
func TestBases(t *testing.T) {
	t.Parallel()
	outer, err := weburl.New("http://h/", nil)
	if err != nil {
		t.Fatal(err)
	}
	var b media.Bases
	is := func(want string) {
		t.Helper()
		if got := b.In(outer).String(); got != want {
			t.Errorf("base %s, want %s", got, want)
		}
	}
	b.Start("a/", outer)
	b.Start("", outer)
	b.Start("b/c", outer)
	is("http://h/a/b/c")
	b.End()
	is("http://h/a/")
	b.Start("http://[", outer)
	is("http://h/a/")
	b.End()
	b.End()
	b.End()
	is("http://h/")
	b.End()
	b.Start("/d/", outer)
	is("http://h/d/")
}

// However deep a document is nested, few bases are in memory.
func TestNestedBases(t *testing.T) {
	t.Parallel()
	outer, err := weburl.New("http://h/", nil)
	if err != nil {
		t.Fatal(err)
	}
	const depth = 100_000
	var b media.Bases
	made := make(map[*weburl.URL]bool)
	for range depth {
		b.Start("a/", outer)
		made[b.In(outer)] = true
	}
	if len(made) > 100 {
		t.Errorf("%d elements have %d bases of their own", depth, len(made))
	}
	for range depth {
		b.End()
	}
	if b.In(outer) != outer {
		t.Errorf("after the end of all elements the base is %s", b.In(outer))
	}
}

// A tokenizer keeps all bytes of a document, whatever it is.
func FuzzTokenizer(f *testing.F) {
	f.Add("<svg><title/><![CDATA[x]]></svg><script>", false)
	f.Add("<?xml-stylesheet href='x'?><a b=&amp;/>&#x;", true)
	f.Add("<svg><desc><math></svg></desc><p>", false)
	f.Fuzz(func(t *testing.T, doc string, xml bool) {
		var b strings.Builder
		z := media.NewTokenizer(strings.NewReader(doc), xml)
		for z.Next() != html.ErrorToken {
			b.Write(z.Raw())
			z.Text()
		}
		if b.Write(z.Raw()); b.String() != doc {
			t.Errorf("%q was read as %q", doc, b.String())
		}
		media.RootElement([]byte(doc))
		media.AttributeValue(doc)
	})
}
