package httpd

import (
	"net/http"
	neturl "net/url"
	"slices"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/serve"
	"sheaf/serve/replay"
)

// maxListed is how many versions, the newest, one page lists.
const maxListed = 2000

// versionsPage lists the versions of a page, the newest first.
type versionsPage struct {
	screen
	Count   int
	Years   []versionYear
	TimeMap string
	Left    bool   // there are older ones
	Scripts string // the page in ReplayWeb.page; empty where that is not here
}

type versionYear struct {
	Year     int
	Versions []versionLine
}

type versionLine struct {
	Time      time.Time
	Stamp     string
	Path      string
	URL       string // where it is not the one of the list
	Status    int
	Type      string
	Size      int64 // -1: not known
	Same      bool  // as the version before
	Truncated string
	Diff      string // with the version before; "" where there is none, or no difference
	Newest    bool
	Before    bool // is compared with the newest unless the reader chooses others
}

var versionsTemplate = screenTemplate(`{{.T.Versions}} - {{.URL}}`, `<h1>{{.T.Versions}}</h1>
<p class="url">{{.URL}}</p>
<form action="/diff" method="get"><input type="hidden" name="url" value="{{.URL}}">
{{$s := .}}{{range .Years}}<h2>{{.Year}}</h2>
<table class="versions"><tr><th>{{$s.T.From}}</th><th>{{$s.T.To}}</th><th>{{$s.T.Time}}</th><th>{{$s.T.Kind}}</th><th>{{$s.T.Size}}</th><th>{{$s.T.Note}}</th></tr>
{{range .Versions}}<tr{{if .Same}} class="same"{{end}}><td><input type="radio" name="from" value="{{.Stamp}}" aria-label="{{$s.T.From}} {{.Stamp}}"{{if .Before}} checked{{end}}></td>
<td><input type="radio" name="to" value="{{.Stamp}}" aria-label="{{$s.T.To}} {{.Stamp}}"{{if .Newest}} checked{{end}}></td>
<td><a href="{{.Path}}">{{$s.Clock .Time}}</a>{{with .URL}}<br><span class="url">{{.}}</span>{{end}}</td><td>{{.Type}}</td><td>{{if ge .Size 0}}{{.Size}}{{end}}</td>
<td>{{if ne .Status 200}}{{.Status}} {{end}}{{if .Same}}{{$s.T.SameText}} {{end}}{{with .Truncated}}{{$s.T.Truncated}} ({{.}}) {{end}}{{with .Diff}}<a href="{{.}}">{{$s.T.Changes}}</a>{{end}}</td></tr>
{{end}}</table>
{{end}}
{{if gt .Count 1}}<p><button>{{.T.Compare}}</button></p>{{end}}</form>
{{with .Scripts}}<p><a href="{{.}}">{{$s.T.WithScripts}}</a></p>{{end}}
{{if .Left}}<p>{{.T.NotListed}} <a href="{{.TimeMap}}">{{.TimeMap}}</a></p>{{end}}
`)

// versions serves /web/*/<URL>.
func (s *server) versions(w http.ResponseWriter, r *http.Request, all mementos, url string) error {
	page := versionsPage{screen: s.screen(r, url), Count: len(all), TimeMap: pathTimeMap + "link/" + url}
	lines := make([]versionLine, len(all))
	for i, c := range all {
		lines[i] = lineOf(c, url)
		if i > 0 {
			if lines[i].Same = c.Digest == all[i-1].Digest; !lines[i].Same {
				lines[i].Diff = diffPath(all[i-1].Time, c.Time, url)
			}
		}
	}
	last := len(all) - 1
	if s.Replay != "" && s.ReplayOrigin != "" {
		page.Scripts = strings.TrimSuffix(s.ReplayOrigin, "/") + pathReplay + "?" + neturl.Values{"source": {"/a/" + all[last].Line.Host + "/all.wacz"}}.Encode() + "#" +
			neturl.Values{"view": {"pages"}, "url": {all[last].URL}, "ts": {replay.Timestamp(all[last].Time)}}.Encode()
	}
	lines[last].Newest, lines[max(0, last-1)].Before = true, true
	if len(lines) > maxListed {
		lines, page.Left = lines[len(lines)-maxListed:], true
	}
	slices.Reverse(lines)
	for _, line := range lines {
		year := line.Time.In(s.Zone).Year()
		if n := len(page.Years); n == 0 || page.Years[n-1].Year != year {
			page.Years = append(page.Years, versionYear{Year: year})
		}
		y := &page.Years[len(page.Years)-1]
		y.Versions = append(y.Versions, line)
	}
	s.link(w, r, all, -1, url)
	return s.show(w, r, http.StatusOK, versionsTemplate, page)
}

func lineOf(c *serve.Capture, url string) versionLine {
	line := versionLine{
		Time: c.Time, Stamp: replay.Timestamp(c.Time), Path: replay.Path(c.Time, replay.Plain, c.URL),
		Status: c.Status, Type: c.MIME, Size: -1, Truncated: truncatedBy(c),
	}
	if c.URL != url {
		line.URL = c.URL
	}
	switch {
	case c.Original != nil:
		line.Status, line.Type, line.Size = c.Original.Status, c.Original.MIME, c.Original.BodyLen
	case c.Kind == archive.Page:
		line.Size = c.BodyLen
	}
	return line
}
