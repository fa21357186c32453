package replay

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/encoding/japanese"
)

func read(t testing.TB, body, contentType string) *Content {
	t.Helper()
	c, err := Read(strings.NewReader(body), contentType)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRead(t *testing.T) {
	sjis, err := japanese.ShiftJIS.NewEncoder().String("<title> 題\n名 </title><p>日本語の<b>頁</b>です。<br>次の行<table><tr><td>甲<td>乙<tr><td>丙</table>" + japaneseText)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, body, contentType, want string }{
		{"html", "<head><title>T &amp; t</title><style>a{}</style></head><body><h1>One</h1>two <i>three</i>four&nbsp;five<ul><li>six<li>seven</ul><script>no</script>",
			"text/html", "T & t: One|two threefour five|six|seven"},
		{"shift_jis", sjis, "text/html", "題 名: 日本語の頁です。|次の行|甲 乙|丙|" + japaneseText},
		{"pre", "<pre>a  b\n c\n\nd</pre>e", "text/html", ": a b|c|d|e"},
		{"images", `<p>a<img alt="b c" src=x>d<noscript><p>e</noscript><noframes>no</noframes>`, "text/html", ": a b c d|e"},
		{"plain", "one\r\n two  three\n\n四\n", "text/plain; charset=utf-8", ": one|two three|四"},
		{"feed", "<a>x</a>\n<b>y</b>", "application/rss+xml", ": <a>x</a>|<b>y</b>"},
	} {
		got := read(t, c.body, c.contentType)
		if s := got.Title + ": " + strings.Join(got.Blocks, "|"); s != c.want || got.More {
			t.Errorf("%s: %q, want %q", c.name, s, c.want)
		}
	}
	if _, err := Read(strings.NewReader("GIF89a"), "image/gif"); !errors.Is(err, ErrNoText) {
		t.Errorf("an image: %v", err)
	}
	if got := read(t, strings.Repeat("<p>x", maxBlocks+1), "text/html"); len(got.Blocks) != maxBlocks || !got.More {
		t.Errorf("%d blocks, more: %t", len(got.Blocks), got.More)
	}
	if got := read(t, strings.Repeat("x ", MaxText/2)+"y", "text/plain"); !got.More || len(got.Blocks[0]) != MaxText-1 {
		t.Errorf("%d bytes, more: %t", len(got.Blocks[0]), got.More)
	}
}

// told formats a diff: [-removed-]{+added+}, one block in each line, equal blocks as their number.
func told(d *Diff) string {
	var b strings.Builder
	span := func(op Op, text string) string {
		switch op {
		case Removed:
			return "[-" + text + "-]"
		case Added:
			return "{+" + text + "+}"
		}
		return text
	}
	for _, s := range d.Title {
		b.WriteString(span(s.Op, s.Text))
	}
	for i, h := range d.Hunks {
		if i > 0 || d.Title != nil {
			b.WriteString("|")
		}
		if h.Op == Same {
			fmt.Fprintf(&b, "=%d", len(h.Blocks))
			continue
		}
		for i, s := range h.Blocks {
			if i > 0 {
				b.WriteString("|")
			}
			b.WriteString(span(h.Op, s))
		}
		for _, s := range h.Spans {
			b.WriteString(span(s.Op, s.Text))
		}
	}
	return b.String()
}

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct{ a, b, want string }{
		"same":       {"<p>a<p>b", "<div>a</div><p>b</p><!-- c -->", "=2"},
		"added":      {"<p>a<p>b", "<p>a<p>new<p>b", "=1|{+new+}|=1"},
		"removed":    {"<p>a<p>old<p>b", "<p>a<p>b", "=1|[-old-]|=1"},
		"words":      {"<p>The office is open on Monday morning", "<p>The office is open on Tuesday morning", "The office is open on [-Monday-]{+Tuesday+} morning"},
		"other":      {"<p>x<p>nothing in common here", "<p>x<p>ABC DEF", "=1|[-nothing in common here-]|{+ABC DEF+}"},
		"title":      {"<title>News 1</title>a", "<title>News 2</title>a", "News [-1-]{+2+}|=1"},
		"japanese":   {"<p>次回の講演会は十一月三日に行います。会場は本館です。", "<p>次回の講演会は十二月五日に行います。会場は新館です。", "次回の講演会は十[-一-]{+二+}月[-三-]{+五+}日に行います。会場は[-本-]{+新+}館です。"},
		"katakana":   {"<p>新しいコンピュータを入れました", "<p>新しいプリンタを入れました", "新しい[-コンピュータ-]{+プリンタ+}を入れました"},
		"moved":      {"<p>a<p>b<p>c<p>d", "<p>b<p>c<p>d<p>a", "[-a-]|=3|{+a+}"},
		"joined":     {"<p>one two three, four", "<p>one two three, four<br>five", "=1|{+five+}"},
		"divided":    {"<p>The first sentence. The second sentence.", "<p>The first sentence.<p>The second sentence.", "The first sentence.[- -]{+\n+}The second sentence."},
		"from empty": {"", "<p>a", "{+a+}"},
	} {
		d := Compare(read(t, c.a, "text/html"), read(t, c.b, "text/html"))
		if got := told(d); got != c.want || d.Identical() != (name == "same") {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// rebuild checks that the diff contains the whole of both texts.
func rebuild(t testing.TB, d *Diff, a, b *Content) {
	t.Helper()
	var earlier, later []string
	for _, h := range d.Hunks {
		if h.Op == Changed {
			var x, y strings.Builder
			for _, s := range h.Spans {
				if s.Op != Added {
					x.WriteString(s.Text)
				}
				if s.Op != Removed {
					y.WriteString(s.Text)
				}
			}
			earlier, later = append(earlier, strings.Split(x.String(), "\n")...), append(later, strings.Split(y.String(), "\n")...)
		}
		if h.Op == Same || h.Op == Removed {
			earlier = append(earlier, h.Blocks...)
		}
		if h.Op == Same || h.Op == Added {
			later = append(later, h.Blocks...)
		}
	}
	if !slices.Equal(earlier, a.Blocks) || !slices.Equal(later, b.Blocks) {
		t.Fatalf("%s\nof %q\nand %q", told(d), a.Blocks, b.Blocks)
	}
}

func FuzzCompare(f *testing.F) {
	f.Add("<p>a<p>b c<p>d", "<p>b c d<p>a")
	f.Add("漢字かな<br>カナ", "漢字<br>かなカナ<title>x")
	f.Add("<pre>a\nb\rc", "<pre>a\rb\nc\xff")
	f.Fuzz(func(t *testing.T, x, y string) {
		a, b := read(t, x, "text/html"), read(t, y, "text/html")
		d := Compare(a, b)
		rebuild(t, d, a, b)
		if same := slices.Equal(a.Blocks, b.Blocks) && a.Title == b.Title; same != d.Identical() {
			t.Fatalf("identical: %t for %q and %q", d.Identical(), x, y)
		}
	})
}

// lcs returns the length of a longest common subsequence, by the simple method.
func lcs(a, b []int32) int {
	row := make([]int, len(b)+1)
	for _, x := range a {
		corner := 0
		for j, y := range b {
			up := row[j+1]
			if x == y {
				row[j+1] = corner + 1
			} else {
				row[j+1] = max(row[j+1], row[j])
			}
			corner = up
		}
	}
	return row[len(b)]
}

// TestFewestEdits: compare finds as few edits as possible.
func TestFewestEdits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		letters := 2 + r.IntN(4)
		a, b := make([]int32, r.IntN(40)), make([]int32, r.IntN(40))
		for _, s := range [][]int32{a, b} {
			for i := range s {
				s[i] = int32(r.IntN(letters))
			}
		}
		steps := maxSteps
		edits := compare(a, b, false, &steps)
		kept, aAt, bAt := 0, 0, 0
		for _, e := range append(edits, edit{len(a), len(a), len(b), len(b)}) {
			if !slices.Equal(a[aAt:e.aLo], b[bAt:e.bLo]) {
				t.Fatalf("%v are not all edits of %v and %v", edits, a, b)
			}
			kept += e.aLo - aAt
			aAt, bAt = e.aHi, e.bHi
		}
		if best := lcs(a, b); kept != best {
			t.Errorf("%d items kept of %v and %v, where %d can be", kept, a, b, best)
		}
	}
}

// TestBounded: comparing huge pages, and pages made to be difficult, ends in time, and the diff is
// complete.
func TestBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	random := func(n, kinds int) string {
		var b strings.Builder
		for range n {
			fmt.Fprintf(&b, "<p>%d", r.IntN(kinds))
		}
		return b.String()
	}
	line := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteRune(rune('一' + r.IntN(8)))
		}
		return b.String()
	}
	for name, c := range map[string][2]string{
		"few kinds of block":  {random(40_000, 3), random(40_000, 4)},
		"one long line":       {line(40_000), line(40_000)},
		"nothing alike":       {random(50_000, 1<<30), random(50_000, 1<<30)},
		"many lines, swapped": {random(20_000, 1<<30) + "<p>x", "<p>x" + random(20_000, 1<<30)},
	} {
		a, b := read(t, c[0], "text/html"), read(t, c[1], "text/html")
		d := Compare(a, b)
		rebuild(t, d, a, b)
		if d.Identical() {
			t.Errorf("%s: no difference", name)
		}
	}
}

func BenchmarkCompare(b *testing.B) {
	r := rand.New(rand.NewPCG(3, 4))
	var x, y strings.Builder
	for range 40_000 {
		fmt.Fprintf(&x, "<p>%d", r.IntN(3))
		fmt.Fprintf(&y, "<p>%d", r.IntN(4))
	}
	from, to := read(b, x.String(), "text/html"), read(b, y.String(), "text/html")
	for b.Loop() {
		Compare(from, to)
	}
}
