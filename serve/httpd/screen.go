package httpd

import (
	"bytes"
	"html/template"
	"net/http"
	"strings"
	"time"

	"golang.org/x/text/language"

	"sheaf/serve/replay"
)

// ownPolicy is the Content-Security-Policy of the service's own pages: no scripts,
// nothing from elsewhere.
const ownPolicy = "default-src 'none'; style-src 'unsafe-inline'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"

// guard sets what keeps the service's own HTML from being taken for something else.
func guard(h http.Header) {
	h.Set("Content-Security-Policy", ownPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
}

// screen is what every page for people has.
type screen struct {
	Lang string
	T    *wording
	URL  string // of the stored page
	zone *time.Location
}

// place is a link on a page for people.
type place struct{ URL, Path string }

func (s *server) screen(r *http.Request, url string) screen {
	lang := languageOf(r)
	t := &english
	if lang == "ja" {
		t = &japanese
	}
	return screen{Lang: lang, T: t, URL: url, zone: s.Zone}
}

// languageOf chooses between the languages that the pages for people are written in.
func languageOf(r *http.Request) string {
	wanted, _, err := language.ParseAcceptLanguage(r.Header.Get("Accept-Language"))
	if err != nil {
		return "en"
	}
	for _, tag := range wanted {
		switch base, _ := tag.Base(); base.String() {
		case "ja", "en":
			return base.String()
		}
	}
	return "en"
}

// Clock writes a time in the service's zone.
func (s screen) Clock(t time.Time) string { return t.In(s.zone).Format("2006-01-02 15:04:05 MST") }

// Versions is where all versions of the page are listed.
func (s screen) Versions() string { return replay.Root + "*/" + s.URL }

// show answers with one of the service's own pages.
func (s *server) show(w http.ResponseWriter, r *http.Request, status int, page *template.Template, data any) error {
	var body bytes.Buffer
	if err := page.Execute(&body, data); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	guard(h)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "private, no-cache")
	if vary := h.Get("Vary"); !strings.Contains(vary, "Accept-Language") {
		h.Add("Vary", "Accept, Accept-Language")
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		w.Write(body.Bytes())
	}
	return nil
}

// The beginning and the end of the service's own pages.
const (
	screenHead = `<!DOCTYPE html>
<html lang="{{.Lang}}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{template "title" .}}</title>
<style>
body{margin:0 auto;padding:1em 1.5em;max-width:64em;font:15px/1.6 "Helvetica Neue",Arial,"Liberation Sans","Hiragino Sans","Noto Sans JP","Noto Sans CJK JP",Meiryo,IPAGothic,sans-serif;color:#222;background:#fdfcf8}
h1{font-size:1.3em;margin:.2em 0}h2{font-size:1.05em;margin:1.6em 0 .3em;border-bottom:1px solid #d8d2bd}
.url{word-break:break-all;font-family:monospace;color:#555}
table{border-collapse:collapse;width:100%}td,th{padding:.2em .6em;text-align:left;vertical-align:top;border-bottom:1px solid #ebe6d6}th{font-weight:normal;color:#666}
.versions th:nth-child(-n+2){width:3.5em}.versions th:nth-child(3){width:14em}.versions th:nth-child(4),.versions th:nth-child(5){width:7em}
a{color:#0645ad}.note,.same{color:#777}button{font:inherit}
ins{background:#d4f2d0;text-decoration:none}del{background:#fbd7d4;text-decoration:none}
.hunk del{text-decoration:line-through 1px #d1615d}
.hunk{margin:.5em 0;padding:.3em .8em;border-left:4px solid #ddd;overflow-wrap:anywhere}.hunk p{margin:.3em 0}
.added{border-color:#59a14f}.removed{border-color:#d1615d}.changed{border-color:#d0a83c}
details{margin:.5em 0;color:#777}summary{cursor:pointer}
</style></head><body>
`
	screenTail = "</body></html>\n"
)

func screenTemplate(title, body string) *template.Template {
	return template.Must(template.New("").Parse(`{{define "title"}}` + title + `{{end}}` + screenHead + body + screenTail))
}

// missingPage says that a page is not here.
type missingPage struct {
	screen
	Near []place
}

var missingTemplate = screenTemplate(`{{.T.Missing}}`, `<h1>{{.T.Missing}}</h1>
<p class="url">{{.URL}}</p>
<p>{{.T.MissingWhy}}</p>
{{if .Near}}<h2>{{.T.Near}}</h2>
<ul>{{range .Near}}<li><a href="{{.Path}}">{{.URL}}</a></li>{{end}}</ul>{{end}}
`)

var redirectTemplate = screenTemplate(`{{.T.RedirectOut}}`, `<h1>{{.T.RedirectOut}}</h1>
<p class="url">{{.URL}}</p>
<p class="url">→ {{range .Near}}{{.URL}}{{end}}</p>
<p><a href="{{.Versions}}">{{.T.AllVersions}}</a></p>
`)

// framedPage shows a page of frames below the banner.
type framedPage struct {
	screen
	Banner []byte
	Path   string
}

// Markup is the banner, which a template of ours made.
func (p framedPage) Markup() template.HTML { return template.HTML(p.Banner) }

var framedTemplate = template.Must(template.New("").Parse(`<!DOCTYPE html>
<html lang="{{.Lang}}"><head><meta charset="utf-8"><title>{{.URL}}</title>
<style>html,body{height:100%;margin:0;overflow:hidden}body{display:flex;flex-direction:column}iframe{flex:1;width:100%;border:0}</style></head>
<body>{{.Markup}}<iframe src="{{.Path}}" title="{{.URL}}"></iframe></body></html>
`))
