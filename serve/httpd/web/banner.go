package web

import (
	"bytes"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"sheaf/archive"
	"sheaf/internal/api"
	"sheaf/internal/webpage"
	"sheaf/serve/replay"
)

// banner is the data of the banner above a stored page.
type banner struct {
	screen
	Now           time.Time
	Number, Count int
	First, Prev   string // paths; empty: no such version
	Next, Last    string
	Timeline      *timeline // nil: all versions are of one time
	Diff, Bytes   string
	Find          string // where the address box is sent; empty: no box
	Truncated     string
	Since         time.Time // zero unless the version is a revisit
	Status        int       // 0: 200
	Forwards      string
	ForwardsPath  string
}

// bannerTemplate is of banner.html, which undoes in each element what the page's own style sheets
// would do to it.
var bannerTemplate = sync.OnceValue(func() *template.Template { return template.Must(template.ParseFS(templates, "banner.html")) })

// banner returns the banner of version i, as HTML in ASCII.
func (p *Pages) banner(r *http.Request, all mementos, i int, doc *replay.Document) ([]byte, error) {
	c := all[i]
	b := banner{
		screen: p.screen(r, c.URL), Now: c.Time, Number: i + 1, Count: len(all), Truncated: truncated(c),
		Bytes: replay.Path(c.Time, replay.Bytes, c.URL), Find: p.find(r),
	}
	b.Timeline = newTimeline(b.Page, all, i)
	if i > 0 {
		b.First, b.Prev = path(all[0]), path(all[i-1])
		if all[i-1].Digest != c.Digest {
			b.Diff = replay.DiffPath(all[i-1].Time, c.Time, c.URL)
		}
	}
	if last := len(all) - 1; i < last {
		b.Next, b.Last = path(all[i+1]), path(all[last])
	}
	if c.Original != nil {
		b.Since = c.Original.Time
	}
	if of := answered(c); of.Kind != archive.Page && of.Status != http.StatusOK {
		b.Status = of.Status
	}
	if doc.Refresh != "" {
		b.Forwards, b.ForwardsPath = doc.Refresh, replay.Path(c.Time, replay.Plain, doc.Refresh)
	}
	var out bytes.Buffer
	if err := bannerTemplate().Execute(&out, b); err != nil {
		return nil, err
	}
	return ascii(out.Bytes()), nil
}

// find returns where the banner's address box is sent, as an absolute URL: the page's policy has to
// name it. It returns "" if the service does not know its own URL.
func (p *Pages) find(r *http.Request) string {
	if origin := p.origin(r); origin != "" {
		return origin + api.PathFind
	}
	return ""
}

// ascii returns markup with character references instead of non-ASCII characters, for pages in any
// encoding.
func ascii(markup []byte) []byte {
	if !slices.ContainsFunc(markup, func(b byte) bool { return b >= 0x80 }) {
		return markup
	}
	var out bytes.Buffer
	for _, r := range string(markup) {
		if r < 0x80 {
			out.WriteByte(byte(r))
		} else {
			fmt.Fprintf(&out, "&#%d;", r)
		}
	}
	return out.Bytes()
}

// timeline draws the versions of a page over time, as SVG. Each bar is a part of the time between
// the first and the last version; the more versions it has, the higher it is.
type timeline struct {
	Width, Height float64
	Bars          []timelineBar
	From, To      string // days of the first and the last version
}

// timelineBar is a part of the time that has versions.
type timelineBar struct {
	X, Y, W, H float64
	Path       string // path of its newest version besides the shown one; empty: no such version
	Label      string
	Now        bool // the version that is shown is one of its versions
}

const (
	timelineParts  = 48
	timelineWidth  = 288.0
	timelineHeight = 20.0
	lowestBar      = 6.0
)

// newTimeline draws all versions, and marks version i, which is shown. It returns nil if all
// versions are of one time.
func newTimeline(p webpage.Page, all mementos, i int) *timeline {
	first, last := all[0].Time, all[len(all)-1].Time
	span := last.Sub(first)
	if span <= 0 {
		return nil
	}
	t := &timeline{Width: timelineWidth, Height: timelineHeight, From: p.Date(first), To: p.Date(last)}
	var parts [timelineParts][]int // indexes of versions
	most := 0
	for j, c := range all {
		n := int(float64(c.Time.Sub(first)) / float64(span) * (timelineParts - 1))
		parts[n] = append(parts[n], j)
		most = max(most, len(parts[n]))
	}
	const step = timelineWidth / timelineParts
	for n, versions := range parts {
		if len(versions) == 0 {
			continue
		}
		oldest, newest := all[versions[0]], all[versions[len(versions)-1]]
		bar := timelineBar{X: step * float64(n), W: step - 1, Label: p.Second(newest.Time)}
		bar.H = math.Round(lowestBar + (timelineHeight-lowestBar)*math.Log1p(float64(len(versions)))/math.Log1p(float64(most)))
		bar.Y = timelineHeight - bar.H
		if len(versions) > 1 {
			bar.Label = p.T("%d versions, %s to %s", len(versions), p.Second(oldest.Time), p.Second(newest.Time))
		}
		for _, j := range versions {
			if j == i {
				bar.Now = true
			} else {
				bar.Path = path(all[j])
			}
		}
		t.Bars = append(t.Bars, bar)
	}
	return t
}
