package page

import (
	"hash/maphash"
	"slices"
	"strings"
	"unicode"
)

// Sketch is the text of an answer in 1 KiB, for comparison with others: the 128 smallest hashes of
// its shingles, which are the runs of eight characters. The share of hashes that two sketches have
// in common estimates the share of common shingles (Broder, "On the resemblance and containment of
// documents", 1997). Only sketches of the same Sketcher can be compared.
type Sketch struct {
	title  string
	length int
	hashes []uint64
}

const (
	shingle  = 8
	keep     = 128
	alike    = 0.95
	few      = 16 // with fewer shingles only equal texts are alike
	lengthBy = 10 // lengths may differ by one tenth
)

// Sketcher makes sketches that can be compared. It may be used concurrently.
type Sketcher struct{ seed maphash.Seed }

// NewSketcher returns a Sketcher with a random seed, so its sketches are of no use to another
// process.
func NewSketcher() *Sketcher { return &Sketcher{maphash.MakeSeed()} }

// Sketch returns the sketch of a page. It ignores the requested URL, which error pages repeat.
func (s *Sketcher) Sketch(p *Look, url string) *Sketch {
	k := &Sketch{title: essence(p.Title, url)}
	text := []rune(essence(p.Text, url))
	k.length = len(text)
	for i := 0; i+shingle <= len(text); i++ {
		k.hashes = append(k.hashes, maphash.String(s.seed, string(text[i:i+shingle])))
	}
	if len(text) < shingle {
		k.hashes = append(k.hashes, maphash.String(s.seed, string(text)))
	}
	slices.Sort(k.hashes)
	k.hashes = slices.Clip(slices.Compact(k.hashes))
	k.hashes = slices.Clone(k.hashes[:min(len(k.hashes), keep)])
	return k
}

// essence returns a text in lower case, without blanks, digits and the URL, its path or its last
// segment. Error pages differ in the URL, the time and a number.
func essence(text, url string) string {
	_, rest, _ := strings.Cut(url, "://")
	path := rest[max(0, strings.IndexByte(rest, '/')):]
	for _, part := range []string{url, path, path[strings.LastIndexByte(path, '/')+1:]} {
		if len(part) >= 4 {
			text = strings.ReplaceAll(text, part, "")
		}
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, text)
}

// Like reports whether two answers have the same title and about the same text.
func (k *Sketch) Like(o *Sketch) bool {
	shorter, longer := min(k.length, o.length), max(k.length, o.length)
	if k.title != o.title || longer-shorter > longer/lengthBy {
		return false
	}
	if len(k.hashes) < few || len(o.hashes) < few {
		return slices.Equal(k.hashes, o.hashes)
	}
	// The smallest hashes of the union are a sample of it. Those that both sketches have are
	// counted.
	sampled, both := 0, 0
	for a, b := k.hashes, o.hashes; len(a) > 0 && len(b) > 0 && sampled < keep; sampled++ {
		switch {
		case a[0] == b[0]:
			both++
			a, b = a[1:], b[1:]
		case a[0] < b[0]:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return float64(both) >= alike*float64(sampled)
}
