package httpd

import (
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"sheaf/serve"
	"sheaf/serve/account"
	"sheaf/serve/bandwidth"
	"sheaf/serve/replay"
)

// diffPath is where two versions of a page are compared.
func diffPath(from, to time.Time, url string) string {
	return pathDiff + replay.Timestamp(from) + "/" + replay.Timestamp(to) + "/" + url
}

// DiffDocument is a comparison for programs: /diff/… with Accept: application/json.
type DiffDocument struct {
	URL       string     `json:"url"`
	From      time.Time  `json:"from"`
	To        time.Time  `json:"to"`
	SameBytes bool       `json:"same_bytes"`
	Text      bool       `json:"text"`      // both are text, and were compared as such
	Identical bool       `json:"identical"` // in what can be read
	Whole     bool       `json:"whole"`     // false: only the beginning was compared, or some of it as a whole
	Removed   int        `json:"removed"`   // characters
	Added     int        `json:"added"`     // characters
	Title     []DiffSpan `json:"title,omitempty"`
	Hunks     []DiffHunk `json:"hunks,omitempty"`
}

// DiffHunk is a stretch of the page: "same", "removed" or "added" with its
// paragraphs, or "changed" with spans.
type DiffHunk struct {
	Op         string     `json:"op"`
	Paragraphs []string   `json:"paragraphs,omitempty"`
	Count      int        `json:"count,omitempty"` // of paragraphs that are the same, which are not repeated
	Spans      []DiffSpan `json:"spans,omitempty"`
}

// DiffSpan is a piece of text that is the same, removed or added.
type DiffSpan struct {
	Op   string `json:"op"`
	Text string `json:"text"`
}

// diffForm serves /diff?from=&to=&url=, which the list of versions asks for.
func (s *server) diffForm(w http.ResponseWriter, r *http.Request, _ *account.Account) error {
	query := r.URL.Query()
	url, err := replay.ParseURL(query.Get("url"))
	if err != nil {
		return badAddress(err)
	}
	from, err := replay.ParseTimestamp(query.Get("from"))
	if err != nil {
		return badAddress(err)
	}
	to, err := replay.ParseTimestamp(query.Get("to"))
	if err != nil {
		return badAddress(err)
	}
	found(w, s.origin(r)+diffPath(from, to, url))
	return nil
}

// diff serves /diff/<timestamp>/<timestamp>/<URL>.
func (s *server) diff(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	first, rest, _ := strings.Cut(target(r, pathDiff), "/")
	second, rest, _ := strings.Cut(rest, "/")
	from, err := replay.ParseTimestamp(first)
	if err != nil {
		return badAddress(err)
	}
	to, err := replay.ParseTimestamp(second)
	if err != nil {
		return badAddress(err)
	}
	url, err := replay.ParseURL(rest)
	if err != nil {
		return badAddress(err)
	}
	all, err := s.mementos(r, a, url)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return s.noPage(w, r, a, url)
	}
	i, j := all.at(from, url), all.at(to, url)
	if i < 0 || j < 0 {
		found(w, s.origin(r)+diffPath(all[all.nearest(from, nil)].Time, all[all.nearest(to, nil)].Time, url))
		return nil
	}
	permit, err := s.Library.Access.Begin(r.Context(), a)
	if err != nil {
		return err
	}
	defer permit.Close()
	w = pacedAnswer{w, bandwidth.Writer(r.Context(), w, permit.Take)}
	c, err := s.compare(r, all[i], all[j])
	if err != nil {
		return err
	}
	w.Header().Set("Vary", "Accept, Accept-Language")
	if wantsJSON(r) {
		return answerJSON(w, http.StatusOK, c.document(url))
	}
	page := diffPage{screen: s.screen(r, url), comparison: c, From: versionOf(all[i]), To: versionOf(all[j])}
	return s.show(w, r, http.StatusOK, diffTemplate, page)
}

func wantsJSON(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "application/json") && !wantsHTML(r)
}

// comparison is what there is to say of two versions.
type comparison struct {
	from, to *serve.Capture
	Diff     *replay.Diff // nil where they are not text
	More     bool         // of one or both only the beginning was compared
}

// compare reads two versions and compares them, as many pairs at once as there are processors.
func (s *server) compare(r *http.Request, from, to *serve.Capture) (*comparison, error) {
	select {
	case s.comparing <- struct{}{}:
		defer func() { <-s.comparing }()
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	c := &comparison{from: from, to: to}
	earlier, err := textOf(r, from)
	if errors.Is(err, replay.ErrNoText) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	later, err := textOf(r, to)
	if errors.Is(err, replay.ErrNoText) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	c.Diff, c.More = replay.Compare(earlier, later), earlier.More || later.More
	return c, nil
}

func textOf(r *http.Request, c *serve.Capture) (*replay.Content, error) {
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

// SameBytes reports whether the bodies are the same, byte for byte.
func (c *comparison) SameBytes() bool { return c.from.Digest == c.to.Digest }

func (c *comparison) document(url string) DiffDocument {
	d := DiffDocument{URL: url, From: c.from.Time.UTC(), To: c.to.Time.UTC(), SameBytes: c.SameBytes(), Text: c.Diff != nil}
	if c.Diff == nil {
		d.Identical = d.SameBytes
		return d
	}
	d.Identical, d.Whole = c.Diff.Identical(), !c.More && !c.Diff.Coarse
	d.Removed, d.Added, d.Title = c.Diff.Removed, c.Diff.Added, diffSpans(c.Diff.Title)
	for _, h := range c.Diff.Hunks {
		hunk := DiffHunk{Op: h.Op.String(), Spans: diffSpans(h.Spans)}
		if h.Op == replay.Same {
			hunk.Count = len(h.Blocks)
		} else {
			hunk.Paragraphs = h.Blocks
		}
		d.Hunks = append(d.Hunks, hunk)
	}
	return d
}

func diffSpans(spans []replay.Span) []DiffSpan {
	var all []DiffSpan
	for _, s := range spans {
		all = append(all, DiffSpan{s.Op.String(), s.Text})
	}
	return all
}

// diffPage shows a comparison.
type diffPage struct {
	screen
	*comparison
	From, To versionLine
}

func versionOf(c *serve.Capture) versionLine { return lineOf(c, c.URL) }

// shown is how many unchanged paragraphs are shown beside a change.
const shown = 2

// fold divides unchanged paragraphs into those shown before, those folded away, and those shown behind.
type fold struct{ Before, Folded, Behind []string }

// diffHunk is a hunk as it is shown.
type diffHunk struct {
	Op     string
	Spans  []diffSpan
	Blocks []string
	fold
}

// diffSpan is a span as it is shown.
type diffSpan struct{ Op, Text string }

// Title is what became of the title.
func (p diffPage) Title() []diffSpan { return shownSpans(p.Diff.Title) }

func shownSpans(spans []replay.Span) []diffSpan {
	var all []diffSpan
	for _, s := range spans {
		text := s.Text
		if s.Op != replay.Same { // where paragraphs were joined or divided
			text = strings.ReplaceAll(text, "\n", "¶\n")
		}
		all = append(all, diffSpan{s.Op.String(), text})
	}
	return all
}

// Hunks are the page's stretches from top to bottom.
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

var diffTemplate = template.Must(screenTemplate(`{{.T.Diff}} - {{.URL}}`, `<h1>{{.T.Diff}}</h1>
<p class="url">{{.URL}}</p>
<p><del><a href="{{.From.Path}}">{{.Clock .From.Time}}</a></del> → <ins><a href="{{.To.Path}}">{{.Clock .To.Time}}</a></ins> · <a href="{{.Versions}}">{{.T.AllVersions}}</a></p>
{{range .Cut}}<p class="note">{{.}}</p>{{end}}
{{if not .Diff}}<p>{{.T.NoText}} {{if .SameBytes}}{{.T.DigestSame}}{{else}}{{.T.DigestOther}}{{end}}</p>
<table><tr><td>{{.Clock .From.Time}}</td><td>{{.From.Type}}</td><td>{{.From.Size}}</td></tr><tr><td>{{.Clock .To.Time}}</td><td>{{.To.Type}}</td><td>{{.To.Size}}</td></tr></table>
{{else}}{{if .More}}<p class="note">{{.T.More}}</p>{{end}}{{if .Diff.Coarse}}<p class="note">{{.T.Coarse}}</p>{{end}}
{{if .Diff.Identical}}<p>{{.T.Identical}} {{if .SameBytes}}{{.T.DigestSame}}{{else}}{{.T.DigestOther}}{{end}}</p>
{{else}}<p class="note"><del>{{.T.Removed}}: {{.Diff.Removed}}</del> <ins>{{.T.Added}}: {{.Diff.Added}}</ins> {{.T.Characters}}</p>{{end}}
{{with .Title}}<h2>{{$.T.Title}}</h2><div class="hunk changed"><p>{{template "spans" .}}</p></div>{{end}}
<h2></h2>
{{range .Hunks}}{{if eq .Op "same"}}{{range .Before}}<div class="hunk"><p>{{.}}</p></div>{{end}}
{{- with .Folded}}<details><summary>… {{len .}} {{$.T.Paragraphs}}</summary>{{range .}}<p>{{.}}</p>{{end}}</details>{{end}}
{{- range .Behind}}<div class="hunk"><p>{{.}}</p></div>{{end}}
{{else if eq .Op "changed"}}<div class="hunk changed"><p>{{template "spans" .Spans}}</p></div>
{{else if eq .Op "added"}}<div class="hunk added">{{range .Blocks}}<p><ins>{{.}}</ins></p>{{end}}</div>
{{else}}<div class="hunk removed">{{range .Blocks}}<p><del>{{.}}</del></p>{{end}}</div>
{{end}}{{end}}{{end}}
`).Parse(`{{define "spans"}}{{range .}}{{if eq .Op "added"}}<ins>{{.Text}}</ins>{{else if eq .Op "removed"}}<del>{{.Text}}</del>{{else}}{{.Text}}{{end}}{{end}}{{end}}`))

// Cut says which of the versions is not whole.
func (p diffPage) Cut() []string {
	var notes []string
	for _, v := range []versionLine{p.From, p.To} {
		if v.Truncated != "" {
			notes = append(notes, fmt.Sprintf("%s: %s (%s)", p.Clock(v.Time), p.T.Truncated, v.Truncated))
		}
	}
	return notes
}
