package web

import (
	"cmp"
	"net/http"
	neturl "net/url"
	"slices"
	"strings"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/webpage"
	"sheaf/serve/records"
	"sheaf/serve/replay"
)

// maxListed is how many versions one page lists. They are the newest.
const maxListed = 1000

var versionsTemplate = webpage.ParseFiles(templates, "versions.html")

// versionsPage lists the versions of a page, newest first.
type versionsPage struct {
	screen
	Count   int
	Years   []versionYear
	TimeMap string
	Left    bool   // older versions are left out
	Scripts string // the page in ReplayWeb.page; empty if that is not offered
}

type versionYear struct {
	Year     int
	Versions []versionLine
}

type versionLine struct {
	Time      time.Time
	Stamp     string
	Path      string
	URL       string // URL of the version; empty if it is the URL of the list
	Status    int
	Type      string
	Size      int64  // bytes; -1: unknown
	Same      bool   // the body is that of the version before
	Truncated string // why the body is not whole
	Diff      string // path of the comparison with the version before; empty if there is no difference
	Newest    bool
	Before    bool // compared with the newest unless the reader chooses other versions
}

func (p *Pages) versions(w http.ResponseWriter, r *http.Request, all mementos, url string) error {
	list := versionsPage{screen: p.screen(r, url), Count: len(all), TimeMap: api.PathTimeMap + "link/" + replay.InPath(url)}
	lines := make([]versionLine, len(all))
	for i, c := range all {
		lines[i] = lineOf(c, url)
		if i > 0 {
			if lines[i].Same = c.Digest == all[i-1].Digest; !lines[i].Same {
				lines[i].Diff = replay.DiffPath(all[i-1].Time, c.Time, url)
			}
		}
	}
	last := len(all) - 1
	if p.Player != "" {
		list.Scripts = strings.TrimSuffix(p.Player, "/") + api.PathReplay + "?" +
			neturl.Values{"source": {api.PathArchives + all[last].Segment.Host + "/all.wacz"}}.Encode() + "#" +
			neturl.Values{"view": {"pages"}, "url": {all[last].URL}, "ts": {replay.Timestamp(all[last].Time)}}.Encode()
	}
	lines[last].Newest, lines[max(0, last-1)].Before = true, true
	if len(lines) > maxListed {
		lines, list.Left = lines[len(lines)-maxListed:], true
	}
	slices.Reverse(lines)
	for _, line := range lines {
		year := p.Site.Local(line.Time).Year()
		if n := len(list.Years); n == 0 || list.Years[n-1].Year != year {
			list.Years = append(list.Years, versionYear{Year: year})
		}
		y := &list.Years[len(list.Years)-1]
		y.Versions = append(y.Versions, line)
	}
	p.link(w, r, all, -1, url)
	return webpage.Show(w, r, http.StatusOK, versionsTemplate, list)
}

func lineOf(c *records.Capture, url string) versionLine {
	line := versionLine{
		Time: c.Time, Stamp: replay.Timestamp(c.Time), Path: path(c),
		Status: answered(c).Status, Type: c.MIME, Size: -1, Truncated: truncated(c),
	}
	if c.URL != url {
		line.URL = c.URL
	}
	if c.Original != nil {
		c = c.Original
		line.Type = c.MIME
	}
	if c.Kind.HasFile() {
		line.Size = c.BodyLen
	}
	return line
}

// truncated returns why the body of a version is not whole, or "" if it is.
func truncated(c *records.Capture) string { return cmp.Or(c.Original, c).Truncated }
