package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"sheaf/internal/api"
	"sheaf/internal/problem"
	"sheaf/internal/webpage"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/records"
	"sheaf/serve/replay"
)

var diffTemplate = webpage.ParseFiles(templates, "diff.html")

// parsePair parses the two times and the URL of a comparison.
func (p *Pages) parsePair(first, second, page string) (from, to replay.Period, url string, err error) {
	from, err1 := replay.ParsePeriod(first, p.Site.Zone)
	to, err2 := replay.ParsePeriod(second, p.Site.Zone)
	url, err3 := replay.ParseURL(page)
	return from, to, url, cmp.Or(err1, err2, err3)
}

// diffForm redirects from /diff?from=&to=&url=, the form of the list of versions, to the
// comparison.
func (p *Pages) diffForm(w http.ResponseWriter, r *http.Request, _ *account.Account) error {
	query := r.URL.Query()
	from, to := query.Get("from"), query.Get("to")
	_, _, url, err := p.parsePair(from, to, query.Get("url"))
	if err != nil {
		return err
	}
	guard.Found(w, p.origin(r)+api.PathDiff+from+"/"+to+"/"+replay.InPath(url))
	return nil
}

// diff serves /diff/<timestamp>/<timestamp>/<URL>. If either second has no version, it redirects to
// the nearest versions, as web does.
func (p *Pages) diff(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	first, rest, _ := strings.Cut(target(r, api.PathDiff), "/")
	second, rest, _ := strings.Cut(rest, "/")
	from, to, url, err := p.parsePair(first, second, rest)
	if err != nil {
		return err
	}
	all, err := p.mementos(w, r, a, url)
	if all == nil {
		return err
	}
	i, j := all.at(from.Time, url), all.at(to.Time, url)
	if i < 0 || j < 0 {
		guard.Found(w, p.origin(r)+replay.DiffPath(all[all.nearest(from, nil)].Time, all[all.nearest(to, nil)].Time, url))
		return nil
	}
	permit, err := p.Access.Begin(r.Context(), a)
	if err != nil {
		return err
	}
	defer permit.Close()
	w = pacedAnswer{w, account.Writer(r.Context(), w, permit.Take)}
	c, err := p.compare(r, all[i], all[j])
	if err != nil {
		return err
	}
	if guard.WantsJSON(r) {
		return problem.JSON(w, http.StatusOK, c.document(url))
	}
	return webpage.Show(w, r, http.StatusOK, diffTemplate, diffPage{screen: p.screen(r, url), comparison: c, From: lineOf(all[i], url), To: lineOf(all[j], url)})
}

// comparison is two versions, and what differs between their texts.
type comparison struct {
	from, to *records.Capture
	Diff     *replay.Diff // nil if a version is not text
	More     bool         // of one or both versions only the beginning was compared
}

// compare reads two versions and compares them. At most as many comparisons run at once as there
// are processors.
func (p *Pages) compare(r *http.Request, from, to *records.Capture) (*comparison, error) {
	select {
	case p.comparing <- struct{}{}:
		defer func() { <-p.comparing }()
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	c := &comparison{from: from, to: to}
	var texts [2]*replay.Content
	for i, version := range []*records.Capture{from, to} {
		text, err := textOf(r, version)
		if errors.Is(err, replay.ErrNoText) {
			return c, nil
		}
		if err != nil {
			return nil, err
		}
		texts[i], c.More = text, c.More || text.More
	}
	c.Diff = replay.Compare(texts[0], texts[1])
	return c, nil
}

// textOf returns the text of a version. A redirect's text is its status and its target.
func textOf(r *http.Request, c *records.Capture) (*replay.Content, error) {
	answer, err := c.Response(r.Context())
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if to := answer.Get("Location"); to != "" && answer.Status/100 == 3 {
		return &replay.Content{Blocks: []string{fmt.Sprintf("%d → %s", answer.Status, to)}}, nil
	}
	content, err := replay.Read(answer.Body, storedType(answer))
	if err != nil {
		return nil, err
	}
	return content, answer.Check()
}

// SameBytes reports whether the bodies are the same byte for byte.
func (c *comparison) SameBytes() bool { return c.from.Digest == c.to.Digest }

func (c *comparison) document(url string) api.DiffDocument {
	d := api.DiffDocument{URL: url, From: c.from.Time.UTC(), To: c.to.Time.UTC(), SameBytes: c.SameBytes(), Text: c.Diff != nil}
	if c.Diff == nil {
		d.Identical = d.SameBytes
		return d
	}
	d.Identical, d.Whole = c.Diff.Identical(), !c.More && !c.Diff.Coarse
	d.Removed, d.Added, d.Title = c.Diff.Removed, c.Diff.Added, diffSpans(c.Diff.Title)
	for _, h := range c.Diff.Hunks {
		hunk := api.DiffHunk{Op: h.Op.String(), Spans: diffSpans(h.Spans)}
		if h.Op == replay.Same {
			hunk.Count = len(h.Blocks)
		} else {
			hunk.Paragraphs = h.Blocks
		}
		d.Hunks = append(d.Hunks, hunk)
	}
	return d
}

func diffSpans(spans []replay.Span) []api.DiffSpan {
	var all []api.DiffSpan
	for _, s := range spans {
		all = append(all, api.DiffSpan{Op: s.Op.String(), Text: s.Text})
	}
	return all
}

// diffPage is the data of the page that shows a comparison.
type diffPage struct {
	screen
	*comparison
	From, To versionLine
}

// shown is how many unchanged paragraphs are shown beside a change.
const shown = 2

// fold divides unchanged paragraphs: some are shown, then some are folded away, then some are
// shown.
type fold struct{ Before, Folded, Behind []string }

// diffHunk is a hunk as the page shows it.
type diffHunk struct {
	Op     string
	Spans  []api.DiffSpan
	Blocks []string
	fold
}

// Title returns what changed in the title.
func (p diffPage) Title() []api.DiffSpan { return shownSpans(p.Diff.Title) }

func shownSpans(spans []replay.Span) []api.DiffSpan {
	all := diffSpans(spans)
	for i, s := range spans {
		if s.Op != replay.Same { // paragraphs were joined or divided
			all[i].Text = strings.ReplaceAll(s.Text, "\n", "¶\n")
		}
	}
	return all
}

// Hunks returns the hunks from top to bottom, with unchanged paragraphs folded.
func (p diffPage) Hunks() []diffHunk {
	var all []diffHunk
	for i, h := range p.Diff.Hunks {
		shown := diffHunk{Op: h.Op.String(), Blocks: h.Blocks, Spans: shownSpans(h.Spans)}
		if h.Op == replay.Same {
			shown.fold = folded(h.Blocks, i == 0, i == len(p.Diff.Hunks)-1)
		}
		all = append(all, shown)
	}
	return all
}

func folded(blocks []string, first, last bool) fold {
	before, behind := shown, shown
	if first {
		before = 0
	}
	if last {
		behind = 0
	}
	if len(blocks) <= before+behind+1 {
		return fold{Before: blocks}
	}
	return fold{blocks[:before], blocks[before : len(blocks)-behind], blocks[len(blocks)-behind:]}
}

// Cut returns a note for each version that is not whole.
func (p diffPage) Cut() []string {
	var notes []string
	for _, v := range []versionLine{p.From, p.To} {
		if v.Truncated != "" {
			notes = append(notes, fmt.Sprintf("%s: %s (%s)", p.Clock(v.Time), p.T("The page is not whole: the robot stopped reading it"), v.Truncated))
		}
	}
	return notes
}
