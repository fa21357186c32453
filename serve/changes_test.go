package serve_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/mux"
	"github.com/parquet-go/parquet-go"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/archive/store/storetest"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/httpd"
	"sheaf/serve/library"
	"sheaf/serve/reading"
	"sheaf/serve/servetest"
	"sheaf/test/operatorstest"
)

// dayChanges returns the lines of what a day changed of jp; none if the day has nothing of it.
func dayChanges(t *testing.T, lib *reading.Library, a *account.Account, day string) (lines []library.DayChange) {
	t.Helper()
	name := "/days/" + day + "/jp/changes.jsonl.gz"
	if _, err := lib.Tree.Stat(t.Context(), a, name); library.IsNotFound(err) {
		return nil
	}
	in, err := gzip.NewReader(bytes.NewReader(read(t, lib, a, name)))
	testkit.Must(t, err)
	for out := json.NewDecoder(in); ; {
		var c library.DayChange
		err := out.Decode(&c)
		if errors.Is(err, io.EOF) {
			return lines
		}
		testkit.Must(t, err)
		lines = append(lines, c)
	}
}

// members returns the files of a tar.gz, with all that their headers say.
func members(t *testing.T, data []byte) map[string]string {
	t.Helper()
	files := make(map[string]string)
	if len(data) == 0 {
		return files
	}
	in, err := gzip.NewReader(bytes.NewReader(data))
	testkit.Must(t, err)
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		testkit.Must(t, err)
		body, err := io.ReadAll(r)
		testkit.Must(t, err)
		files[h.Name] = fmt.Sprintln(h.ModTime.UnixNano(), h.PAXRecords, string(body))
	}
}

// copied is what a consumer has who follows the days: the files of each page, by the page's ID.
type copied struct {
	host  map[string]string
	files map[string]map[string]string
}

func newCopy() *copied {
	return &copied{make(map[string]string), make(map[string]map[string]string)}
}

func (c *copied) clone() *copied { return &copied{maps.Clone(c.host), maps.Clone(c.files)} }

// follow applies a day.
func (c *copied) follow(t *testing.T, lib *reading.Library, a *account.Account, day string) {
	t.Helper()
	for _, l := range dayChanges(t, lib, a, day) {
		switch {
		case l.Change == library.ChangeExpired:
		case l.ID == "":
			for id, host := range c.host {
				if host == l.Host {
					delete(c.files, id)
				}
			}
		case l.DayPlace == nil || l.File == "":
			delete(c.files, l.ID)
		default:
			f, err := lib.Tree.Open(t.Context(), a, "/days/"+l.Day+"/jp/"+l.Volume+".tar.gz")
			testkit.Must(t, err)
			c.host[l.ID], c.files[l.ID] = l.Host, members(t, []byte(readRange(t, f, l.Tar.Offset, l.Tar.Length)))
			testkit.Must(t, f.Close())
			if c.files[l.ID][l.File] == "" || len(c.files[l.ID]) != 1 {
				t.Errorf("%s: at %+v lies %v", l.URL, l.DayPlace, c.files[l.ID])
			}
		}
	}
}

func (c *copied) all() map[string]string {
	all := make(map[string]string)
	for _, files := range c.files {
		maps.Copy(all, files)
	}
	return all
}

// past is a random history of some hosts, day by day.
type past struct {
	*servetest.Site
	t      *testing.T
	random *rand.Rand
	mu     sync.Mutex // guards now where a server runs
	now    time.Time
	crawls []*crawl
	late   map[string][]*archive.Record // of a robot that delivers later
	downs  []catalog.Tombstone
	rules  *account.Rules
	made   []account.Rule // access rules in force
	writes int            // of the store until the service is killed; 0: it lives on
	killed bool
}

func newPast(t *testing.T, random *rand.Rand) *past {
	p := &past{Site: servetest.New(t, nil), t: t, random: random, now: time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)}
	p.start()
	for i := range 3 {
		p.crawls = append(p.crawls, &crawl{fmt.Sprintf("www.h%d.jp", i), random, make([]string, 5), make([]time.Time, 5)})
	}
	return p
}

// start starts the service anew: whatever it held in memory is gone.
func (p *past) start() {
	now := func() time.Time {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.now
	}
	p.killed = false
	mortal := &storetest.Fault{Store: p.Store, Decide: p.decideWrite, DecideRead: p.decideRead}
	var err error
	p.Catalog, err = catalog.Open(p.t.Context(), mortal, catalog.Options{Now: now, Fanout: 3})
	testkit.Must(p.t, err)
	p.rules = account.NewRules(p.DB, slog.New(slog.DiscardHandler))
	p.rules.Now = now
	p.Library, err = reading.New(reading.Options{Catalog: p.Catalog, Store: p.Store, Accounts: p.Accounts, Rules: p.rules, Volume: 24 << 10})
	testkit.Must(p.t, err)
}

// decideWrite kills the service at the last of p.writes, just before or just after that.
func (p *past) decideWrite(op, key string) storetest.Outcome {
	if p.writes == 1 {
		p.writes, p.killed = 0, true
		return []storetest.Outcome{storetest.Fails, storetest.FailsButHappened}[p.random.IntN(2)]
	}
	p.writes = max(p.writes-1, 0)
	return p.decideRead(op, key)
}

func (p *past) decideRead(_, _ string) storetest.Outcome {
	if p.killed {
		return storetest.Fails
	}
	return storetest.Works
}

// do does something with the catalog. Sometimes the service is killed meanwhile, and does it again
// when it has started anew.
func (p *past) do(what func() error) {
	p.t.Helper()
	if p.random.IntN(4) == 0 {
		p.writes = 1 + p.random.IntN(3)
	}
	err := what()
	p.writes = 0
	if p.killed {
		p.start()
		err = what()
	}
	testkit.Must(p.t, err)
}

// rule adds an access rule, or removes one.
func (p *past) rule() {
	if len(p.made) > 0 && p.random.IntN(3) == 0 {
		i := p.random.IntN(len(p.made))
		testkit.Must(p.t, p.rules.Remove(p.t.Context(), p.made[i].ID))
		p.made = slices.Delete(p.made, i, i+1)
		return
	}
	host := p.crawls[p.random.IntN(len(p.crawls))].host
	r := account.Rule{Domain: host, Accounts: []string{"alice"}, Reason: "contract"}
	switch p.random.IntN(5) {
	case 0:
		r.Days = 1 + p.random.IntN(3)
	case 1:
		r = account.Rule{Domain: "*", Days: 1 + p.random.IntN(2), From: p.now.Add(-36 * time.Hour), To: p.now.Add(36 * time.Hour), Reason: "elections"}
	case 2:
		r = account.Rule{URLPrefix: fmt.Sprintf("http://%s/p%d", host, p.random.IntN(5)), Until: p.now.Add(time.Duration(p.random.IntN(72)) * time.Hour), Reason: "embargo"}
	case 3:
		r = account.Rule{URLPrefix: fmt.Sprintf("http://%s/p%d", host, p.random.IntN(5)), Days: 1 + p.random.IntN(3), Accounts: []string{"alice"}, Reason: "embargo"}
	}
	r, err := p.rules.Add(p.t.Context(), r)
	testkit.Must(p.t, err)
	p.made = append(p.made, r)
}

// publish publishes what the robots bring, and sometimes what one brings late.
func (p *past) publish(of ...*crawl) {
	records := make(map[string][]*archive.Record)
	for _, c := range of {
		some := c.day(p.now.Add(-time.Hour))
		if p.late == nil && p.random.IntN(6) == 0 {
			p.late = map[string][]*archive.Record{c.host: some}
			continue
		}
		records[c.host] = some
	}
	if len(records) > 0 {
		p.bring(records)
	}
	if p.late != nil && p.random.IntN(3) == 0 {
		p.bring(p.late)
		p.late = nil
	}
}

// bring publishes records.
func (p *past) bring(records map[string][]*archive.Record) {
	some := p.Prepare("", records)
	p.do(func() error {
		_, err := p.Catalog.Publish(p.t.Context(), some)
		return err
	})
}

// decide takes something down, or lifts it.
func (p *past) decide() {
	host := p.crawls[p.random.IntN(len(p.crawls))].host
	stone := catalog.Tombstone{Host: host, Reason: "asked", By: "op"}
	switch p.random.IntN(6) {
	case 0:
	case 1:
		stone.Edition = p.now.AddDate(0, 0, -p.random.IntN(3)).Format("20060102")
	case 2, 3:
		stone.URLPrefix = fmt.Sprintf("http://%s/p%d", host, p.random.IntN(5))
	default:
		if len(p.downs) == 0 {
			return
		}
		i := p.random.IntN(len(p.downs))
		begun := false
		p.do(func() error {
			_, err := p.Catalog.Restore(p.t.Context(), p.downs[i])
			if begun && errors.Is(err, catalog.ErrNotExist) {
				return nil // it was done before the kill
			}
			begun = true
			return err
		})
		p.downs = slices.Delete(p.downs, i, i+1)
		return
	}
	if slices.ContainsFunc(p.downs, func(o catalog.Tombstone) bool {
		return o.Host == stone.Host && o.Edition == stone.Edition && o.URLPrefix == stone.URLPrefix
	}) {
		return
	}
	p.do(func() error {
		_, err := p.Catalog.Remove(p.t.Context(), stone)
		return err
	})
	p.downs = append(p.downs, stone)
}

// expire lets what is older than two days expire, and erases what is taken down.
func (p *past) expire() {
	p.do(func() error {
		_, err := p.Catalog.Collect(p.t.Context(), catalog.CollectOptions{
			Claims:    func(context.Context) (func(string) bool, error) { return func(string) bool { return false }, nil },
			Retention: catalog.Retention{Keep: 48 * time.Hour, Expendable: p.Library.Archive.Expendable},
		})
		return err
	})
}

// pass lets a day pass up to its last second, and returns its name.
func (p *past) pass() string {
	if p.now.Hour() == 23 {
		p.now = p.now.Add(time.Second).Add(3 * time.Hour)
	}
	day := p.now.Format("20060102")
	if p.random.IntN(8) > 0 {
		p.publish(p.crawls[:1+p.random.IntN(len(p.crawls))]...)
	}
	for range p.random.IntN(4) {
		p.now = p.now.Add(2 * time.Hour)
		switch p.random.IntN(5) {
		case 0, 1:
			p.decide()
			continue
		case 2:
			p.rule()
			continue
		}
		p.publish(p.crawls[p.random.IntN(len(p.crawls))])
	}
	if p.random.IntN(4) == 0 {
		p.expire()
	}
	p.do(func() error { return p.Catalog.Merge(p.t.Context()) })
	p.do(func() error { return p.rules.TellNow(p.t.Context(), p.Catalog) })
	if p.random.IntN(4) == 0 {
		p.start()
	}
	p.now = time.Date(p.now.Year(), p.now.Month(), p.now.Day(), 23, 59, 59, 0, time.UTC)
	return day
}

// state returns the files of the latest version of every page, as the hosts' own archives have
// them.
func (p *past) state() map[string]string {
	all := make(map[string]string)
	for _, c := range p.crawls {
		name := "/" + naming.HostPath(c.host) + "/current.members.tar.gz"
		if _, err := p.Library.Tree.Stat(p.t.Context(), everyone, name); err == nil {
			maps.Copy(all, members(p.t, read(p.t, p.Library, everyone, name)))
		}
	}
	return all
}

func (p *past) compare(what string, got, want map[string]string) {
	p.t.Helper()
	for name := range want {
		if got[name] != want[name] {
			p.t.Errorf("%s: %s is %.60q…, want %.60q…", what, name, got[name], want[name])
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			p.t.Errorf("%s: %s is there", what, name)
		}
	}
}

// Who has the state of a day and follows the days after it has the state of the last: each night,
// or all of them in the end, whatever was taken down, hidden by rules or shown again, expired or
// came late meanwhile, and at whichever write of these the service was killed. No line names a page
// that nobody may see.
func TestDaysLeadFromStateToState(t *testing.T) {
	histories := 16
	if testkit.Full() {
		histories = 1000
	}
	random := testkit.Random(t)
	for n := range histories {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			p := newPast(t, rand.New(rand.NewPCG(random.Uint64(), 1)))
			nightly := newCopy()
			var days []string
			var copies []*copied // at the end of each day
			for range 8 {
				day := p.pass()
				days = append(days, day)
				nightly.follow(t, p.Library, everyone, day)
				p.compare("after "+day, nightly.all(), p.state())
				copies = append(copies, nightly.clone())
				if t.Failed() {
					return
				}
			}
			for from, c := range copies {
				for _, day := range days[from+1:] {
					c.follow(t, p.Library, everyone, day)
				}
				p.compare("all at once from "+days[from], c.all(), p.state())
			}
			p.nothingHidden(days)
		})
	}
}

// nothingHidden expects that no line names a page of which nothing is to be seen.
func (p *past) nothingHidden(days []string) {
	p.t.Helper()
	for _, day := range days {
		for _, l := range dayChanges(p.t, p.Library, everyone, day) {
			hidden := func(s catalog.Tombstone) bool {
				return s.Host == l.Host && (s.Whole() || s.URLPrefix == l.URL)
			}
			if l.URL != "" && slices.ContainsFunc(p.downs, hidden) {
				p.t.Errorf("%s names %s", day, l.URL)
			}
		}
	}
}

// Each kind of change has its line, in JSON and in the table.
func TestKindsOfChanges(t *testing.T) {
	p := newPast(t, testkit.Random(t))
	const host = "www.h0.jp"
	page := func(path string) string { return "http://" + host + "/" + path }
	one := p.now
	moved := func(at time.Time) *archive.Record {
		r := servetest.Answer(page("moves"), 301, at)
		r.HTTP = []byte("HTTP/1.1 301 Moved\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n")
		return r
	}
	var records []*archive.Record
	for _, path := range []string{"changes", "goes", "moves", "secret", "stays", "late"} {
		records = append(records, servetest.Page(page(path), path, one))
	}
	p.Publish("", map[string][]*archive.Record{host: records})
	p.now = one.AddDate(0, 0, 1)
	two := p.now
	p.Publish("", map[string][]*archive.Record{host: {
		servetest.Page(page("changes"), "another", two), servetest.Answer(page("goes"), 410, two), moved(two), servetest.Again(page("stays"), "stays", one, two),
		servetest.Page(page("comes"), "new", two), servetest.Answer(page("fails"), 503, two),
	}})
	p.Publish("", map[string][]*archive.Record{host: {servetest.Page(page("late"), "older", one.Add(-time.Hour))}}) // express, and late
	_, err := p.Catalog.Remove(t.Context(), catalog.Tombstone{Host: host, URLPrefix: page("secret"), Reason: "asked", By: "op"})
	testkit.Must(t, err)
	got := make(map[string]string)
	lines := dayChanges(t, p.Library, everyone, two.Format("20060102"))
	for _, l := range lines {
		got[l.URL] = fmt.Sprint(l.Change, " ", l.Status, " ", l.To, " ", l.Time.Sub(one))
	}
	want := map[string]string{
		page("changes"): "changed 200  24h0m0s", page("goes"): "gone 410  24h0m0s", page("moves"): "moved 301 " + page("there") + " 24h0m0s",
		page("stays"): "unchanged 200  24h0m0s", page("comes"): "new 200  24h0m0s", page("fails"): "failed 503  24h0m0s",
		page("late"): "unchanged 200  0s", "": "withdrawn 0  -1", // see below
	}
	want[""] = fmt.Sprint("withdrawn 0  ", time.Time{}.Sub(one))
	if !maps.Equal(got, want) {
		t.Errorf("there are\n%q, want\n%q", got, want)
	}
	for _, l := range lines {
		if l.URL == "" && l.ID != servetest.SHA256([]byte(page("secret"))) {
			t.Errorf("%+v is withdrawn", l)
		}
	}
	for _, l := range dayChanges(t, p.Library, everyone, one.Format("20060102")) {
		if l.URL == page("secret") || l.URL == "" {
			t.Errorf("the day before tells of %+v", l)
		}
	}
	table := read(t, p.Library, everyone, "/days/"+two.Format("20060102")+"/jp/changes.parquet")
	rows, err := parquet.Read[struct {
		URL    *string `parquet:"url,optional"`
		Change string  `parquet:"change"`
		Offset *int64  `parquet:"warc_offset,optional"`
	}](bytes.NewReader(table), int64(len(table)))
	testkit.Must(t, err)
	if len(rows) != len(lines) {
		t.Errorf("the table has %d rows, want %d", len(rows), len(lines))
	}
	for i, r := range rows {
		if r.Change != lines[i].Change || (r.URL == nil) != (lines[i].URL == "") || r.URL != nil && *r.URL != lines[i].URL || (r.Offset == nil) != (lines[i].DayPlace == nil) {
			t.Errorf("row %d is %+v, want %+v", i, r, lines[i])
		}
	}
	// A day on which nothing was published tells of what was taken down.
	p.now = p.now.AddDate(0, 0, 1)
	_, err = p.Catalog.Remove(t.Context(), catalog.Tombstone{Host: host, Reason: "asked", By: "op"})
	testkit.Must(t, err)
	lines = dayChanges(t, p.Library, everyone, p.now.Format("20060102"))
	if len(lines) < 5 || lines[0].ID != "" || lines[0].Host != host || slices.ContainsFunc(lines, func(l library.DayChange) bool { return l.URL != "" || l.Change != "withdrawn" }) {
		t.Errorf("a host is taken down: %+v", lines)
	}
}

// A page that robots may not collect or index any more is told on the day on which that begins,
// without a visit, too; and each later line of the page says that it is so, until it ends.
func TestForbiddenPages(t *testing.T) {
	p := newPast(t, testkit.Random(t))
	const host = "www.h0.jp"
	page := func(path string) string { return "http://" + host + "/" + path }
	first := p.now
	asks := func(r *archive.Record, what string) *archive.Record {
		r.Preferences = what
		return r
	}
	found := func(path, what string) *archive.Record { // as it was, by a 200
		r := servetest.Again(page(path), path, first, p.now)
		r.HTTP = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
		return asks(r, what)
	}
	const rules, none = "User-agent: *\nDisallow: /private\nUser-agent: other\nDisallow: /\n", "User-agent: *\nDisallow:\n"
	robots := func(text string) *archive.Record { return servetest.Page(page("robots.txt"), text, p.now) }
	steps := []struct {
		records func() []*archive.Record
		want    map[string]string // besides the robots.txt
	}{
		{func() (all []*archive.Record) {
			for _, path := range []string{"open", "meta", "tag", "private/a", "private/b", "others"} {
				all = append(all, servetest.Page(page(path), path, p.now))
			}
			return append(all, robots(none), asks(servetest.Page(page("never"), "never", p.now), "robots=none"))
		}, map[string]string{"open": "new", "meta": "new", "tag": "new", "private/a": "new", "private/b": "new", "others": "new", "never": "new noindex"}},
		{func() []*archive.Record {
			return []*archive.Record{robots(rules), asks(servetest.Page(page("meta"), "another", p.now), "robots=noindex, nofollow"), found("tag", "x-robots-tag=noindex"),
				found("others", "x-robots-tag=otherbot: noindex")}
		}, map[string]string{"meta": "forbidden noindex", "tag": "forbidden noindex", "private/a": "forbidden robots.txt", "private/b": "forbidden robots.txt", "others": "unchanged"}},
		{func() []*archive.Record {
			return []*archive.Record{robots(rules), servetest.Again(page("tag"), "tag", first, p.now), asks(servetest.Page(page("meta"), "a third", p.now), "robots=noindex")}
		}, map[string]string{"tag": "unchanged noindex", "meta": "changed noindex"}},
		{func() []*archive.Record {
			return []*archive.Record{servetest.Answer(page("robots.txt"), 404, p.now), found("tag", "")}
		}, map[string]string{"tag": "unchanged", "private/a": "unchanged", "private/b": "unchanged"}},
	}
	for i, step := range steps {
		p.Publish("", map[string][]*archive.Record{host: step.records()})
		day := p.now.Format("20060102")
		p.now = p.now.AddDate(0, 0, 1)
		got := make(map[string]string)
		for _, l := range dayChanges(t, p.Library, everyone, day) {
			if path := strings.TrimPrefix(l.URL, page("")); path != "robots.txt" {
				got[path] = strings.TrimSpace(l.Change + " " + l.Forbidden)
			}
			if l.DayPlace == nil {
				t.Errorf("day %d: %s has no place", i+1, l.URL)
			}
		}
		if !maps.Equal(got, step.want) {
			t.Errorf("day %d: there are\n%q, want\n%q", i+1, got, step.want)
		}
	}
}

// A day of which something has expired says so of each host, and nothing that it does not have.
func TestExpiredDays(t *testing.T) {
	p := newPast(t, testkit.Random(t))
	const host = "www.h0.jp"
	var days []string
	for i := range 5 {
		p.Publish("", map[string][]*archive.Record{host: {servetest.Page("http://"+host+"/", fmt.Sprint(i), p.now)}})
		days = append(days, p.now.Format("20060102"))
		p.now = p.now.AddDate(0, 0, 1)
	}
	p.expire()
	for i, day := range days {
		lines := dayChanges(t, p.Library, everyone, day)
		if expired := i < 3; len(lines) != 1 || (lines[0].Change == library.ChangeExpired) != expired || lines[0].Host != host || expired && (lines[0].URL != "" || lines[0].ID != "") {
			t.Errorf("day %d tells %+v", i+1, lines)
		}
	}
}

// Who does not see a host, or some pages of it, does not learn from the days that something of them
// was taken down: not by a line, nor by a directory.
func TestDaysTellNothingOfWhatRulesHide(t *testing.T) {
	p := newPast(t, testkit.Random(t))
	rules := account.NewRules(p.DB, slog.New(slog.DiscardHandler))
	rules.Now = func() time.Time { return p.now }
	var err error
	p.Library, err = reading.New(reading.Options{Catalog: p.Catalog, Store: p.Store, Rules: rules})
	testkit.Must(t, err)
	records := make(map[string][]*archive.Record)
	for _, host := range []string{"www.host.jp", "www.early.jp", "www.pages.jp", "www.some.jp"} {
		for _, path := range []string{"a", "a/b", "c"} {
			records[host] = append(records[host], servetest.Page("http://"+host+"/"+path, path, p.now))
		}
	}
	p.Publish("", records)
	for _, r := range []account.Rule{
		{Domain: "host.jp"}, {Domain: "early.jp", To: p.now.AddDate(1, 0, 0)}, {URLPrefix: "http://www.pages.jp/a"}, {URLPrefix: "http://www.some.jp/a/b"},
	} {
		r.Accounts, r.Reason = []string{"alice"}, "private"
		_, err := rules.Add(t.Context(), r)
		testkit.Must(t, err)
	}
	p.now = p.now.AddDate(0, 0, 1)
	for host := range records {
		_, err := p.Catalog.Remove(t.Context(), catalog.Tombstone{Host: host, URLPrefix: "http://" + host + "/a", Reason: "asked", By: "op"})
		testkit.Must(t, err)
	}
	day := p.now.Format("20060102")
	lines := dayChanges(t, p.Library, everyone, day)
	if len(lines) != 1 || lines[0].ID != servetest.SHA256([]byte("http://www.some.jp/a")) || lines[0].Host != "www.some.jp" {
		t.Errorf("the day tells of %+v, want the page of www.some.jp that was to be seen", lines)
	}
	for place, there := range map[string]bool{"jp/host/www": false, "jp/early/www": false, "jp/pages/www": false, "jp/some/www": true, "jp/nobody": false} {
		if _, err := p.Library.Tree.Stat(t.Context(), everyone, "/days/"+day+"/"+place+"/"); there != (err == nil) || !there && !library.IsNotFound(err) {
			t.Errorf("%s: %v", place, err)
		}
	}
}

// The script in docs/consumers.md, run each night for a week by HTTP, leaves what the web has.
func TestNightlyScript(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "jq", "tar", "zcat"} {
		testkit.Tool(t, tool)
	}
	text, err := os.ReadFile(filepath.Join(testkit.Root(t), "docs/consumers.md"))
	testkit.Must(t, err)
	_, script, _ := strings.Cut(string(text), "```bash\n# nightly.sh")
	script, _, ok := strings.Cut(script, "```")
	if !ok || strings.Count(script, "\n") > 15 {
		t.Fatalf("the script is %q", script)
	}
	p := newPast(t, testkit.Random(t))
	p.now = time.Date(2026, 10, 1, 3, 0, 0, 0, time.UTC) // tar warns of times in the future
	p.Account("alice", "always", "*")
	router := mux.NewRouter()
	testkit.Must(t, httpd.Register(router, httpd.Options{
		Library: p.Library, Accounts: p.Accounts, Recorder: p.Log, Log: slog.New(slog.DiscardHandler), Gate: operatorstest.Shut,
	}))
	server := httptest.NewServer(router)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	web := make(map[string]string) // bodies by URL
	since := make(map[string]time.Time)
	volumes, changed := 0, 0
	for night := range 7 {
		records := make(map[string][]*archive.Record)
		for i := range 40 {
			host := fmt.Sprintf("www.h%d.jp", i%3)
			url, at := fmt.Sprintf("http://%s/p%d.html", host, i), p.now.Add(time.Duration(i)*time.Second)
			old, there := web[url]
			switch n := p.random.IntN(10); {
			case !there && n < 4 || there && n == 0:
				web[url], since[url] = fmt.Sprintf("%d in night %d: %x", i, night, p.random.Uint64()), at
				records[host] = append(records[host], servetest.Page(url, web[url], at))
			case there && n == 1:
				delete(web, url)
				records[host] = append(records[host], servetest.Answer(url, 404, at))
			case there:
				records[host] = append(records[host], servetest.Again(url, old, since[url], at))
			}
		}
		p.Publish("", records)
		day := p.now.Format("20060102")
		p.mu.Lock()
		p.now = p.now.AddDate(0, 0, 1)
		p.mu.Unlock()
		run := exec.CommandContext(t.Context(), "bash", "-c", "# nightly.sh"+script, "nightly.sh", day)
		run.Dir, run.Env = dir, append(os.Environ(), "SHEAF_DAYS="+strings.Replace(server.URL, "http://", "http://alice:alice@", 1)+"/pub/days")
		if out, err := run.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("night %d: %v\n%s", night+1, err, out)
		}
		got := make(map[string]string)
		testkit.Must(t, filepath.WalkDir(filepath.Join(dir, "pages"), func(name string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			body, err := os.ReadFile(name)
			rel, _ := filepath.Rel(filepath.Join(dir, "pages"), name)
			got["http://"+filepath.ToSlash(rel)] = string(body)
			return err
		}))
		p.compare(fmt.Sprint("night ", night+1), got, web)
		for _, l := range dayChanges(t, p.Library, everyone, day) {
			if l.DayPlace != nil && l.Day == day && l.Change != library.ChangeUnchanged {
				changed += int(l.Tar.Length)
			}
		}
		volumes += len(read(t, p.Library, everyone, "/days/"+day+"/jp/00001.tar.gz"))
	}
	if float64(volumes) > 1.05*float64(changed) {
		t.Errorf("seven days of tar have %d bytes, what changed %d", volumes, changed)
	}
}
