package httpd

import (
	"bytes"
	"html/template"
	"net/http"
	"time"

	"sheaf/archive"
	"sheaf/serve"
	"sheaf/serve/replay"
)

// bannerPage is what stands above a stored page.
type bannerPage struct {
	screen
	Now           time.Time
	Number, Count int
	First, Prev   string // paths; empty where there is none
	Next, Last    string
	Diff, Bytes   string
	Truncated     string
	Since         time.Time // zero unless a revisit
	SinceDiff     bool
	Status        int // 0: 200
	Forwards      string
	ForwardsPath  string
}

// bannerTemplate resets what the page's own style sheets would do to it.
var bannerTemplate = template.Must(template.New("").Parse(
	`{{define "a"}}style="all:unset;color:#0645ad;text-decoration:underline;cursor:pointer;font:13px/1.5 sans-serif"{{end -}}
<div id="sheaf-archive-banner" lang="{{.Lang}}" style="all:initial;display:block;position:relative;z-index:2147483647;box-sizing:border-box;margin:0;padding:5px 12px;background:#f6f3e6;border-bottom:1px solid #b9b08b;color:#222;font:13px/1.5 sans-serif;text-align:left;direction:ltr">
{{- .T.Archive}}: <b style="all:unset;font-weight:bold">{{.Clock .Now}}</b> &#183; {{.T.Version}} {{.Number}} {{.T.Of}} {{.Count}} {{if gt .Count 1}}&#183; {{end}}
{{- with .First}}<a {{template "a"}} href="{{.}}" target="_top">&#171; {{$.T.First}}</a> {{end}}
{{- with .Prev}}<a {{template "a"}} href="{{.}}" target="_top">&#8249; {{$.T.Prev}}</a> {{end}}
{{- with .Next}}<a {{template "a"}} href="{{.}}" target="_top">{{$.T.Next}} &#8250;</a> {{end}}
{{- with .Last}}<a {{template "a"}} href="{{.}}" target="_top">{{$.T.Last}} &#187;</a> {{end}}&#183;
<a {{template "a"}} href="{{.Versions}}" target="_top">{{.T.AllVersions}}</a> &#183;
{{with .Diff}}<a {{template "a"}} href="{{.}}" target="_top">{{$.T.Changes}}</a> &#183; {{end -}}
<a {{template "a"}} href="{{.Bytes}}" target="_top">{{.T.ToBytes}}</a>
{{- if .Status}} &#183; {{.T.Status}} {{.Status}}{{end}}
{{- if not .Since.IsZero}} &#183; {{.T.Unchanged}} {{.Clock .Since}}{{end}}
{{- with .Truncated}}<br style="all:revert"/><b style="all:unset;font-weight:bold;color:#a00">{{$.T.Truncated}} ({{.}})</b>{{end}}
{{- with .Forwards}}<br style="all:revert"/>{{$.T.Forwards}} <a {{template "a"}} href="{{$.ForwardsPath}}" target="_top">{{.}}</a>{{end -}}
</div>`))

// banner makes the banner of version i, in ASCII.
func (s *server) banner(r *http.Request, all mementos, i int, doc *replay.Document) ([]byte, error) {
	c := all[i]
	b := bannerPage{
		screen: s.screen(r, c.URL), Now: c.Time, Number: i + 1, Count: len(all), Truncated: truncatedBy(c),
		Bytes: replay.Path(c.Time, replay.Bytes, c.URL),
	}
	to := func(c *serve.Capture) string { return replay.Path(c.Time, replay.Plain, c.URL) }
	if i > 0 {
		b.First, b.Prev = to(all[0]), to(all[i-1])
		if all[i-1].Digest != c.Digest {
			b.Diff = diffPath(all[i-1].Time, c.Time, c.URL)
		}
	}
	if last := len(all) - 1; i < last {
		b.Next, b.Last = to(all[i+1]), to(all[last])
	}
	if c.Kind == archive.Revisit {
		b.Since = c.Original.Time
	}
	if c.Kind == archive.Response {
		b.Status = c.Status
	}
	if doc.Refresh != "" {
		b.Forwards, b.ForwardsPath = doc.Refresh, replay.Path(c.Time, replay.Plain, doc.Refresh)
	}
	var out bytes.Buffer
	if err := bannerTemplate.Execute(&out, b); err != nil {
		return nil, err
	}
	return ascii(out.Bytes()), nil
}

// truncatedBy says why a version's body is not whole, if it is not.
func truncatedBy(c *serve.Capture) string {
	if c.Original != nil {
		return c.Original.Truncated
	}
	return c.Truncated
}
