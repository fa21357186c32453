package replay

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Op is what happened to a piece of text.
type Op int8

// What can happen to a piece of text.
const (
	Same Op = iota
	Removed
	Added
	Changed // of a Hunk: see its Spans
)

func (o Op) String() string {
	return [...]string{"same", "removed", "added", "changed"}[o]
}

// Span is a piece of text in a changed hunk. A line end in it is the end of a block.
type Span struct {
	Op   Op // Same, Removed or Added
	Text string
}

// Hunk is successive blocks with the same Op.
type Hunk struct {
	Op     Op
	Blocks []string // unless Changed
	Spans  []Span   // if Changed
}

// Diff is the difference between two versions of a page.
type Diff struct {
	Title   []Span // of both titles; nil if they are equal
	Hunks   []Hunk // from top to bottom
	Removed int    // number of characters
	Added   int    // number of characters
	Coarse  bool   // some large differences were not examined in detail
}

// Identical reports whether the two texts are equal.
func (d *Diff) Identical() bool { return d.Title == nil && d.Removed == 0 && d.Added == 0 }

// maxChanged is how many bytes a changed section may have, in both versions together, to be
// compared word by word.
const maxChanged = 256 << 10

// manyWords is the number of words from which the fewest edits may take too long to find.
const manyWords = 10_000

// Compare returns how the later version differs from the earlier. It takes at most a second for any
// two versions.
func Compare(earlier, later *Content) *Diff {
	steps := maxSteps
	d := new(Diff)
	if earlier.Title != later.Title {
		d.Title = spans([]string{earlier.Title}, []string{later.Title}, &steps)
	}
	ids := make(map[string]int32)
	a, b := number(ids, earlier.Blocks), number(ids, later.Blocks)
	at := 0
	for _, e := range compare(a, b, true, &steps) {
		d.same(earlier.Blocks[at:e.aLo])
		d.edit(earlier.Blocks[e.aLo:e.aHi], later.Blocks[e.bLo:e.bHi], &steps)
		at = e.aHi
	}
	d.same(earlier.Blocks[at:])
	d.Coarse = d.Coarse || steps < 0
	d.count()
	return d
}

// number returns a number for each item; equal items have equal numbers.
func number(ids map[string]int32, items []string) []int32 {
	numbers := make([]int32, len(items))
	for i, s := range items {
		id, ok := ids[s]
		if !ok {
			id = int32(len(ids))
			ids[s] = id
		}
		numbers[i] = id
	}
	return numbers
}

func (d *Diff) same(blocks []string) {
	if len(blocks) > 0 {
		d.Hunks = append(d.Hunks, Hunk{Op: Same, Blocks: blocks})
	}
}

// edit adds changed blocks. It compares them word by word if they have enough in common.
func (d *Diff) edit(removed, added []string, steps *int) {
	if len(removed) > 0 && len(added) > 0 {
		size := 0
		for _, s := range append(removed[:len(removed):len(removed)], added...) {
			size += len(s)
		}
		if size <= maxChanged {
			if s := spans(removed, added, steps); alike(s) {
				d.Hunks = append(d.Hunks, Hunk{Op: Changed, Spans: s})
				return
			}
		} else {
			d.Coarse = true
		}
	}
	if len(removed) > 0 {
		d.Hunks = append(d.Hunks, Hunk{Op: Removed, Blocks: removed})
	}
	if len(added) > 0 {
		d.Hunks = append(d.Hunks, Hunk{Op: Added, Blocks: added})
	}
}

// spans compares blocks word by word.
func spans(earlier, later []string, steps *int) []Span {
	x, y := blockWords(earlier), blockWords(later)
	ids := make(map[string]int32)
	var out []Span
	put := func(op Op, words []string) {
		if text := strings.Join(words, ""); text != "" {
			out = append(out, Span{op, text})
		}
	}
	at := 0
	for _, e := range joined(compare(number(ids, x), number(ids, y), len(x)+len(y) > manyWords, steps), x) {
		put(Same, x[at:e.aLo])
		put(Removed, x[e.aLo:e.aHi])
		put(Added, y[e.bLo:e.bHi])
		at = e.aHi
	}
	put(Same, x[at:])
	return out
}

func blockWords(blocks []string) []string {
	var all []string
	for i, s := range blocks {
		if i > 0 {
			all = append(all, "\n")
		}
		all = words(all, s)
	}
	return all
}

// joined merges two edits if there is almost nothing between them: an equal comma or particle does
// not help a reader to see what was replaced.
func joined(edits []edit, a []string) []edit {
	var out []edit
	for _, e := range edits {
		if n := len(out); n > 0 {
			last := &out[n-1]
			between := a[last.aHi:e.aLo]
			if least := min(weight(last.aHi-last.aLo, last.bHi-last.bLo), weight(e.aHi-e.aLo, e.bHi-e.bLo)); trifle(between, least) {
				last.aHi, last.bHi = e.aHi, e.bHi
				continue
			}
		}
		out = append(out, e)
	}
	return out
}

func weight(removed, added int) int { return max(removed, added) }

// trifle reports whether the words between two edits are too few to be shown as unchanged. least is
// the number of words of the smaller edit.
func trifle(words []string, least int) bool {
	characters := 0
	for _, w := range words {
		if w == "\n" {
			return false
		}
		if strings.TrimSpace(w) != "" {
			characters += utf8.RuneCountInString(w)
		}
	}
	return characters == 0 || characters <= 2 && least >= 2
}

// alike reports whether enough stayed the same to help a reader.
func alike(s []Span) bool {
	same, other := 0, 0
	for _, span := range s {
		n := utf8.RuneCountInString(span.Text)
		if span.Op == Same {
			same += 2 * n
		} else {
			other += n
		}
	}
	return 10*same >= 3*(same+other)
}

// count counts the removed and added characters.
func (d *Diff) count() {
	add := func(op Op, text string) {
		switch op {
		case Removed:
			d.Removed += utf8.RuneCountInString(text)
		case Added:
			d.Added += utf8.RuneCountInString(text)
		}
	}
	for _, h := range d.Hunks {
		for _, s := range h.Blocks {
			add(h.Op, s)
		}
		for _, s := range h.Spans {
			add(s.Op, s.Text)
		}
	}
}

// words splits text into the units to compare: words of letters and digits, runs of katakana, and
// every other character by itself. Japanese has no spaces between words, so kanji and hiragana are
// compared by character.
func words(dst []string, text string) []string {
	for text != "" {
		n := wordLength(text)
		dst = append(dst, text[:n])
		text = text[n:]
	}
	return dst
}

func wordLength(s string) int {
	first, n := utf8.DecodeRuneInString(s)
	class := classOf(first)
	if class == alone {
		return n
	}
	for n < len(s) {
		r, size := utf8.DecodeRuneInString(s[n:])
		if classOf(r) != class && !unicode.Is(unicode.Mn, r) {
			break
		}
		n += size
	}
	return n
}

type wordClass int

const (
	alone wordClass = iota
	letters
	katakana
)

func classOf(r rune) wordClass {
	switch {
	case r < utf8.RuneSelf && (isLower(lower(byte(r))) || '0' <= r && r <= '9'):
		return letters
	case r < utf8.RuneSelf:
		return alone
	case r == 'ー', unicode.Is(unicode.Katakana, r):
		return katakana
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar):
		return alone
	case unicode.IsLetter(r), unicode.IsDigit(r):
		return letters
	}
	return alone
}
