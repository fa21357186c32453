package verdict

import (
	"hash/maphash"
	"slices"
	"strings"
	"unicode"
)

// Sketch remembers an answer's text in 1 KiB, so that others can be compared with
// it: the 128 smallest hashes of its shingles, the runs of eight characters. The share
// of hashes that two sketches have in common estimates the share of shingles that the
// texts have (Broder, "On the resemblance and containment of documents", 1997).
// Sketches of one Sketcher compare with each other.
type Sketch struct {
	title  string
	length int
	hashes []uint64
}

const (
	shingle  = 8
	keep     = 128
	alike    = 0.95
	few      = 16 // shingles below which only equal texts are alike
	lengthBy = 10 // lengths may differ by one part in so many
)

// Sketcher makes sketches.
type Sketcher struct{ seed maphash.Seed }

// NewSketcher returns a Sketcher.
func NewSketcher() *Sketcher { return &Sketcher{maphash.MakeSeed()} }

// Sketch reads a page. The URL by which it was asked for, which answers for missing
// pages repeat, is passed over.
func (s *Sketcher) Sketch(p *Page, url string) *Sketch {
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

// essence is a text without blanks, digits and the URL, its path or its last part: what
// error pages vary is the URL, the time and a number of the incident.
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

// Like reports whether two answers say the same.
func (k *Sketch) Like(o *Sketch) bool {
	shorter, longer := min(k.length, o.length), max(k.length, o.length)
	if k.title != o.title || longer-shorter > longer/lengthBy {
		return false
	}
	if len(k.hashes) < few || len(o.hashes) < few {
		return slices.Equal(k.hashes, o.hashes)
	}
	// The smallest of the union are a sample of it; those that both have count.
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
