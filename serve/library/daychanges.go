package library

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/internal/preference"
	"sheaf/internal/weburl"
	"sheaf/serve/account"
)

// What a day changed of a host is the difference between two states of the host: at the end of the
// day before, and at the day's own end. A state is what latest chooses of the segments that were to
// be seen then, by the take-downs and access rules that were in force then. Of a URL whose record
// is taken down or hidden now, only the SHA-256 is told, on the day of its withdrawal.

// The kinds of a DayChange.
const (
	ChangeNew       = "new"       // a page that was not to be seen at the end of the day before
	ChangeChanged   = "changed"   // the page's content is another
	ChangeUnchanged = "unchanged" // visited, and found as it was
	ChangeGone      = "gone"      // the server says 404 or 410
	ChangeMoved     = "moved"     // the server says 301 or 308
	ChangeFailed    = "failed"    // another answer, at a URL that has no page
	ChangeForbidden = "forbidden" // a page that may no longer be collected or indexed: see DayChange.Forbidden
	ChangeExpired   = "expired"   // of a host: some of what the day brought is not kept any more
	ChangeWithdrawn = "withdrawn" // taken down; of a page only the SHA-256 of its URL is told
)

// DayChange is one line about what a day changed in a domain: about a URL or, without an ID, about
// a whole host.
type DayChange struct {
	Host   string    `json:"host"`
	URL    string    `json:"url,omitempty"`
	ID     string    `json:"id,omitempty"` // SHA-256 of the URL, in hexadecimal
	Change string    `json:"change"`
	Time   time.Time `json:"time,omitzero"` // of the last visit
	Status int       `json:"status,omitempty"`
	Digest string    `json:"digest,omitempty"` // of the content, as in CDX
	File   string    `json:"file,omitempty"`   // name of the page's file in tar archives, or of the host's folder; none: it is no file
	To     string    `json:"to,omitempty"`     // where a page has moved to

	// Forbidden says what forbids to collect or to index a page now: ByRobots or ByNoIndex.
	Forbidden string `json:"forbidden,omitempty"`

	*DayPlace // of the record that stands for the URL now; nil: none does
}

// What forbids a page to robots.
const (
	ByRobots  = "robots.txt" // the host's newest, for Sheaf's robots
	ByNoIndex = "noindex"    // in the page's newest meta element or X-Robots-Tag header
)

// DayPlace says where a record lies in a day's volumes.
type DayPlace struct {
	Day    string  `json:"day"`
	Volume string  `json:"volume"` // such as 00001
	Tar    Stretch `json:"tar"`    // in the volume's .tar.gz, a gzip file by itself; no bytes if the record is no file
	WARC   Stretch `json:"warc"`   // in the volume's .warc.gz, likewise
}

// Placer returns where a record of a segment lies, by its number in the segment's index.
type Placer func(ctx context.Context, seg catalog.SegmentEntry, cell int) (*DayPlace, error)

// stand is the record that stands for a URL.
type stand struct {
	seg  catalog.SegmentEntry
	cell int
	of   *archive.Cell
	part archive.Part
	asks string // what its newest visit asked: archive.Record.Preferences
}

func (s stand) same(o stand) bool { return s.seg.Seq == o.seg.Seq && s.cell == o.cell }

// hostDay finds what a day changed of a host.
type hostDay struct {
	view          *AccountView
	day           string
	place         Placer
	emit          func(DayChange) error
	before, after map[string]stand
	rulesBefore   robotsRules
	rules         robotsRules          // at the day's end
	visited       map[string]time.Time // URLs of which the day has a record, and the time of the last
	shown         map[int64]bool       // sequence numbers of the segments that are to be seen now
	now           *Host                // nil: nothing is to be seen now
}

// DayChanges calls emit with what a day changed of a host: first lines about the whole host, then
// its URLs in order. It holds the indexes of all segments of the host in memory.
func (v *AccountView) DayChanges(ctx context.Context, host, dayBefore, day string, place Placer, emit func(DayChange) error) error {
	history, err := v.Snap.History(ctx, host)
	if err != nil || history.Empty() {
		return err
	}
	d := &hostDay{view: v, day: day, place: place, emit: emit, visited: make(map[string]time.Time), shown: make(map[int64]bool)}
	visible, err := v.segments(ctx, host)
	if err != nil {
		return err
	}
	for _, seg := range visible {
		d.shown[seg.Seq] = true
	}
	if len(visible) > 0 {
		d.now = v.HostOf(visible)
	}
	var lostBefore, lost []int64
	if d.before, lostBefore, err = d.stateAt(ctx, history, dayBefore); err != nil {
		return err
	}
	if d.after, lost, err = d.stateAt(ctx, history, day); err != nil {
		return err
	}
	if history.Expired(day, v.Veil) {
		if err := emit(DayChange{Host: host, Change: ChangeExpired}); err != nil {
			return err
		}
	}
	if err := d.readRules(ctx, host); err != nil {
		return err
	}
	turned, err := d.turned(ctx, host, dayBefore)
	if err != nil {
		return err
	}
	erased := len(lostBefore) > 0 && turned || slices.ContainsFunc(lostBefore, func(seq int64) bool { return !slices.Contains(lost, seq) })
	if erased || len(d.before) > 0 && len(d.after) == 0 {
		// Nobody knows the URLs of what is erased. So all that is left is told anew.
		if err := emit(DayChange{Host: host, Change: ChangeWithdrawn, File: naming.HostDir(host) + "/"}); err != nil {
			return err
		}
		if erased {
			clear(d.before)
		}
	}
	urls := maps.Clone(d.before)
	maps.Copy(urls, d.after)
	for _, url := range slices.Sorted(maps.Keys(urls)) {
		if err := d.url(ctx, host, url); err != nil {
			return err
		}
	}
	return nil
}

// turned reports whether rules began or ceased to hide parts of a host on the day. If older records
// have expired, nobody knows what these parts had replaced.
func (d *hostDay) turned(ctx context.Context, host, dayBefore string) (bool, error) {
	was, err := d.view.veilAt(ctx, dayBefore)
	if err != nil {
		return false, err
	}
	is, err := d.view.veilAt(ctx, d.day)
	return was.OfHost(host).Parts() != is.OfHost(host).Parts(), err
}

// stateAt returns the records that stood for the host's URLs at the end of a day. For lost see
// catalog.History.At.
func (d *hostDay) stateAt(ctx context.Context, history *catalog.History, day string) (state map[string]stand, lost []int64, err error) {
	veil, err := d.view.veilAt(ctx, day)
	if err != nil {
		return nil, nil, err
	}
	segments, stones, lost := history.At(day, veil)
	state = make(map[string]stand)
	if len(segments) == 0 {
		return state, lost, nil
	}
	host := d.view.hostWith(segments, stones)
	host.veil = veil.OfHost(host.Name)
	parts, err := host.Named(Current).readParts(ctx)
	if err != nil {
		return nil, lost, err
	}
	for url, records := range spots(parts) {
		if s, ok := standing(parts, records); ok {
			state[url] = stand{segments[s.part], s.cell, &parts[s.part].Index.Cells[s.cell], parts[s.part], asked(parts, records)}
		}
		for _, s := range records {
			if day == d.day && catalog.DayOf(segments[s.part].Edition) == day && d.sees(segments[s.part], url, s.time) {
				d.visited[url] = s.time
			}
		}
	}
	return state, lost, nil
}

// veilAt returns what the rules hid from the account at the end of a day. If the day has not ended,
// it is what they hide now.
func (v *AccountView) veilAt(ctx context.Context, day string) (*account.Veil, error) {
	end, err := v.Snap.DayEnd(day)
	if err != nil || v.Archive.Rules == nil || end.After(v.Archive.Rules.Now()) {
		return v.Veil, err
	}
	return v.Archive.Rules.VeilAt(ctx, v.Account, v.Scope, end.Add(-1))
}

// Saw reports whether the account may have seen pages that a take-down names, at the end of a day
// or of the day before.
func (v *AccountView) Saw(ctx context.Context, day string, t catalog.Tombstone) (bool, error) {
	end, err := v.Snap.DayEnd(day)
	if err != nil {
		return false, err
	}
	history, err := v.Snap.History(ctx, t.Host)
	if err != nil {
		return false, err
	}
	for _, day := range []string{v.Snap.DayAt(end.AddDate(0, 0, -2)), day} {
		veil, err := v.veilAt(ctx, day)
		if err != nil {
			return false, err
		}
		entries, _, lost := history.At(day, veil)
		if len(entries)+len(lost) > 0 && (t.URLPrefix == "" || !veil.HidesPages(t.Host, t.URLPrefix)) {
			return true, nil
		}
	}
	return false, nil
}

// sees reports whether a record is to be seen now.
func (d *hostDay) sees(seg catalog.SegmentEntry, url string, at time.Time) bool {
	return d.now != nil && d.shown[seg.Seq] && !d.now.Gone(seg, url, at)
}

// url emits what the day changed of a URL, if anything.
func (d *hostDay) url(ctx context.Context, host, url string) error {
	was, there := d.before[url]
	is, stands := d.after[url]
	sum := sha256.Sum256([]byte(url))
	line := DayChange{Host: host, ID: hex.EncodeToString(sum[:])}
	if !stands {
		line.Change = ChangeWithdrawn
		return d.emit(line)
	}
	visit, visited := d.visited[url]
	line.Forbidden = d.rules.forbid(is)
	wasForbidden := there && d.rulesBefore.forbid(was) != ""
	if !d.sees(is.seg, url, is.of.Time) || there && is.same(was) && !visited && (line.Forbidden != "") == wasForbidden {
		return nil
	}
	line.URL, line.Time, line.Status, line.Digest, line.File = url, is.of.Time, is.of.Status, is.of.Digest, is.of.Name
	if line.Time.Before(visit) && there && is.same(was) {
		line.Time = visit
	}
	alike := there && was.of.Digest == is.of.Digest && was.of.Status == is.of.Status && (was.of.Kind == archive.Page) == (is.of.Kind == archive.Page)
	switch {
	case line.Forbidden != "" && !wasForbidden && there && was.of.Kind == archive.Page:
		line.Change = ChangeForbidden
	case there && is.same(was), alike && d.sees(was.seg, url, was.of.Time):
		line.Change = ChangeUnchanged
	case is.of.Kind == archive.Page && there && was.of.Kind == archive.Page:
		line.Change = ChangeChanged
	case is.of.Kind == archive.Page:
		line.Change = ChangeNew
	default:
		line.Change = changeOf(is.of.Status)
	}
	var err error
	if line.Change == ChangeMoved {
		if line.To, err = target(ctx, is.part, is.cell); err != nil {
			return err
		}
	}
	if line.DayPlace, err = d.place(ctx, is.seg, is.cell); err != nil {
		return err
	}
	return d.emit(line)
}

func changeOf(status int) string {
	switch status {
	case http.StatusNotFound, http.StatusGone:
		return ChangeGone
	case http.StatusMovedPermanently, http.StatusPermanentRedirect:
		return ChangeMoved
	}
	return ChangeFailed
}

// maxHead is how much of a record is read for its HTTP header.
const maxHead = 1 << 20

// target returns where a redirect leads, as a whole URL; "" if its header does not say it, or not
// in a form that can be read.
func target(ctx context.Context, p archive.Part, cell int) (string, error) {
	p.Cells = []int{cell}
	view, err := archive.NewView(archive.WARC, []archive.Part{p})
	if err != nil {
		return "", err
	}
	off, n, _ := view.Find(0, 0)
	stored, err := view.OpenRange(ctx, off, n)
	if err != nil {
		return "", err
	}
	defer stored.Close()
	record, err := gzip.NewReader(stored)
	if err != nil {
		return "", err
	}
	in := bufio.NewReader(io.LimitReader(record, maxHead))
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return "", err
		}
		if line == "\r\n" {
			break
		}
	}
	return location(in, p.Index.Cells[cell].URL), nil
}

// location returns the Location of an HTTP answer to a request for a page.
func location(answer *bufio.Reader, page string) string {
	resp, err := http.ReadResponse(answer, nil)
	if err != nil {
		return ""
	}
	resp.Body.Close()
	base, err := url.Parse(page)
	if err != nil || resp.Header.Get("Location") == "" {
		return ""
	}
	to, err := base.Parse(resp.Header.Get("Location"))
	if err != nil {
		return ""
	}
	return to.String()
}

// asked returns the preferences in the newest of a page's records. It passes over answers without
// the page. A 304, for one, has neither the page nor all of its headers.
func asked(parts []archive.Part, records []spot) string {
	for i := len(records) - 1; i >= 0; i-- {
		cell := &parts[records[i].part].Index.Cells[records[i].cell]
		if cell.Kind == archive.Page || cell.Kind == archive.Revisit && cell.Status/100 == 2 {
			return cell.Preferences
		}
	}
	return ""
}

// robotsRules has the rules of a host's newest robots.txt, by scheme. They are nil if the
// robots.txt is not here or cannot be seen.
type robotsRules map[string]*preference.Robots

// forbid returns what forbids a page to Sheaf's robots: ByRobots, ByNoIndex or nothing.
func (r robotsRules) forbid(s stand) string {
	if s.of.Kind != archive.Page {
		return ""
	}
	scheme, _, _ := strings.Cut(s.of.URL, "://")
	if rules := r[scheme]; rules != nil && !rules.Allowed(preference.Robot, weburl.PathQuery(s.of.URL)) {
		return ByRobots
	}
	for _, name := range []string{preference.RobotsMeta, preference.RobotsTag} {
		if preference.ReadTag([]string{preference.Value(s.asks, name)}, preference.Robot).NoIndex {
			return ByNoIndex
		}
	}
	return ""
}

// readRules reads the host's robots.txt files of both states. A file that is the same in both is
// read once.
func (d *hostDay) readRules(ctx context.Context, host string) (err error) {
	d.rulesBefore, d.rules = make(robotsRules), make(robotsRules)
	for _, scheme := range []string{"http", "https"} {
		url := scheme + "://" + host + "/robots.txt"
		was, there := d.before[url]
		if there {
			if d.rulesBefore[scheme], err = d.rulesOf(ctx, was); err != nil {
				return err
			}
		}
		switch is, stands := d.after[url]; {
		case !stands:
		case there && is.of.Digest == was.of.Digest && is.of.Kind == was.of.Kind && is.of.Status == was.of.Status:
			d.rules[scheme] = d.rulesBefore[scheme]
		default:
			if d.rules[scheme], err = d.rulesOf(ctx, is); err != nil {
				return err
			}
		}
	}
	return nil
}

// rulesOf returns the rules in a record of a robots.txt. A 4xx allows everything. The rules are nil
// if the record has none, or cannot be seen now.
func (d *hostDay) rulesOf(ctx context.Context, s stand) (*preference.Robots, error) {
	switch {
	case !d.sees(s.seg, s.of.URL, s.of.Time):
		return nil, nil
	case s.of.Status/100 == 4:
		return new(preference.Robots), nil
	case s.of.Kind != archive.Page:
		return nil, nil
	}
	page, err := archive.PageBodyOf(s.part.Source, s.of)
	if err != nil {
		return nil, err
	}
	body, err := page.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, preference.MaxRobots+1))
	if err != nil {
		return nil, err
	}
	return preference.ParseRobots(text), nil
}
