// Package yesterday opens data directories that former versions of the program wrote with today's
// program. A consumer gets the same files with the same bytes, and a robot continues where it was.
// Each fixture is a folder of testdata; testdata/README.md says what is in it and how to make the
// next one.
package yesterday

import (
	"context"
	"encoding/json"
	"net/http"
	neturl "net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
	"sheaf/internal/wire"
	"sheaf/serve/watch"
)

func TestYesterday(t *testing.T) {
	testkit.Slow(t)
	fixtures, err := filepath.Glob("testdata/*/" + dataFile)
	testkit.Must(t, err)
	if len(fixtures) == 0 {
		t.Fatal("there are no fixtures in testdata")
	}
	for _, name := range fixtures {
		dir := filepath.Dir(name)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			reopen(t, dir)
		})
	}
}

// The files of a fixture.
const (
	dataFile      = "data.tar.gz"   // the service's data directory and its robots' folders
	consumersFile = "consumers.txt" // what consumers got of the program that wrote it
	answersFile   = "answers.json"  // what it answered
	changedFile   = "changed.txt"   // files that have changed on purpose since; may be missing
)

// reopen opens a fixture with today's program, and checks what consumers, operators and robots
// find.
func reopen(t *testing.T, fixture string) {
	files, err := readConsumers(filepath.Join(fixture, consumersFile))
	testkit.Must(t, err)
	changed, err := readChanged(filepath.Join(fixture, changedFile))
	testkit.Must(t, err)
	files = slices.DeleteFunc(files, func(f file) bool { return changed[f.path] })
	answers, err := readAnswers(filepath.Join(fixture, answersFile))
	testkit.Must(t, err)
	dir, name := unpack(t, filepath.Join(fixture, dataFile)), filepath.Base(fixture)
	touch(t, dir)
	fsck(t, dir, hostOf(name), "before the service ran")

	h := live(t, dir, name, today)
	h.sameAnswers(answers) // first, because they also count transfers
	h.sameListing(files, changed)
	h.compare("as it was", files)
	h.studentsScope()
	if t.Failed() {
		return // the rest would only fail for the same reasons
	}

	before := h.editions()
	edition := h.goOn()
	h.thirdEdition(edition)
	h.compare("after another edition", slices.DeleteFunc(files, func(f file) bool { return !ofEditions(f, before) }))
	h.fsck("after another edition")
	h.watchesGoOn(edition)
}

// editions returns the names of the published editions.
func (h *installation) editions() (published []string) {
	h.Helper()
	var list api.EditionList
	h.getJSON(reader, "/v1/editions", &list)
	for _, e := range list.Editions {
		published = append(published, e.Name)
	}
	return published
}

// ofEditions reports whether a file belongs to one of the editions, or is a stored page. Later
// publications change neither.
func ofEditions(f file, editions []string) bool {
	return slices.ContainsFunc(editions, func(e string) bool {
		return strings.HasPrefix(f.path, "/editions/"+e+"/") || strings.HasPrefix(f.path[strings.LastIndexByte(f.path, '/')+1:], e+".") || strings.HasPrefix(f.path, "/web/")
	})
}

// studentsScope checks that the account with limits sees its hosts and no others.
func (h *installation) studentsScope() {
	h.Helper()
	seen := map[string]bool{}
	for _, f := range h.walk(student) {
		if place, ok := strings.CutPrefix(f.path, "/jp/"); ok {
			seen[place[:strings.LastIndexByte(place, '/')]] = true
		}
	}
	want := map[string]bool{"ac/example/kawa/www": true, "ac/example/nagai/www": true}
	if len(seen) != len(want) || !seen["ac/example/kawa/www"] || !seen["ac/example/nagai/www"] {
		h.Errorf("account %s sees %v, want %v", student, seen, want)
	}
}

// goOn lets the robots do one more cycle, and publishes what they bring and what has waited.
func (h *installation) goOn() (edition string) {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), testkit.Patience)
	defer cancel()
	for _, b := range h.batches(wire.StateQuarantined) {
		h.service.Operate(http.MethodPost, "/v1/admin/batches/"+b.ID+"/release", map[string]string{"by": "op", "note": "it was ours after all"}, nil)
	}
	waiting := len(h.batches(wire.StateReceived, wire.StatePreSplit, wire.StatePostSplit))
	one, two := h.open(first), h.open(second)
	testkit.Must(h, one.Cycle(ctx))
	testkit.Must(h, two.Cycle(ctx))
	// The first robot has the batch in its spool and today's, the second one the batch of the cycle
	// in which it was stopped.
	return h.publish(waiting+3, one, two)
}

// cdxLine has the compared fields of an index line.
type cdxLine struct {
	URL      string `json:"url"`
	MIME     string `json:"mime"`
	Status   string `json:"status"`
	Filename string `json:"filename"`
}

// thirdEdition compares what the robots brought with the web. There must be a version of a page for
// each change that they had not seen, and a revisit for each visit that found no change.
func (h *installation) thirdEdition(edition string) {
	h.Helper()
	full, again := map[string]int{}, map[string]int{}
	for _, l := range h.records() {
		place := strings.TrimPrefix(l.URL, "http://")
		switch {
		case !strings.HasSuffix(l.Filename, "/"+edition+".warc.gz"):
		case l.MIME == "warc/revisit":
			again[place]++
		case l.Status == "200":
			full[place]++
		}
	}
	for place := range pages(today) {
		p := pages(today)[place]
		host, _, _ := strings.Cut(place, "/")
		visits, wanted := 2, changes(place, secondDay, today)
		if host == long { // the second robot has done one cycle since the second day, the first one two
			visits = 1
		}
		if host == down || strings.HasPrefix(place, part+"/secret/") || p.moved != "" {
			visits, wanted = 0, 0 // what is taken down is not found, by whichever robot
		}
		if full[place] != wanted || again[place] != visits-wanted {
			h.Errorf("edition %s has %d versions and %d revisits of %s, want %d and %d", edition, full[place], again[place], place, wanted, visits-wanted)
		}
		if visits > 0 {
			if body := h.get(reader, "/web/"+h.newest("http://"+place)+"id_/http://"+place); string(body) != p.body {
				h.Errorf("%s reads %.200q today, want %.200q", place, body, p.body)
			}
		}
	}
	h.resumed()
}

// records returns the index lines of all that the reader sees.
func (h *installation) records() (lines []cdxLine) {
	h.Helper()
	for line := range strings.Lines(string(h.get(reader, "/v1/cdx?output=ndjson&fl=url,mime,status,filename"))) {
		var l cdxLine
		testkit.Must(h, json.Unmarshal([]byte(line), &l))
		lines = append(lines, l)
	}
	return lines
}

// newest returns the time of a page's newest version or visit.
func (h *installation) newest(url string) string {
	h.Helper()
	var l struct{ Timestamp string }
	h.getJSON(reader, "/v1/cdx?output=ndjson&fl=timestamp&limit=-1&url="+neturl.QueryEscape(url), &l)
	return l.Timestamp
}

// resumed checks that the robot continued the upload that the old program had begun: every byte of
// its batches came once.
func (h *installation) resumed() {
	h.Helper()
	var moved transfers.Document
	h.getJSON(operatorName, api.PathTransfers+"?direction=upload&limit=1000&who="+first, &moved)
	var bytes, parts = map[string]int64{}, map[string]int{}
	for _, t := range moved.Transfers {
		bytes[t.Name] += t.Bytes
		parts[t.Name]++
	}
	several := 0
	for _, b := range h.batches(wire.StatePublished) {
		if b.Robot != first {
			continue
		}
		if bytes[b.ID] != b.Size {
			h.Errorf("batch %s has %d bytes, of which %d were moved", b.ID, b.Size, bytes[b.ID])
		}
		if parts[b.ID] > 1 {
			several++
		}
	}
	if several != 1 {
		h.Errorf("%d batches of robot %s came in parts, want the one that yesterday's program had begun to send", several, first)
	}
}

// watchesGoOn checks that each watch finds the one change of its pages in the edition.
func (h *installation) watchesGoOn(edition string) {
	h.Helper()
	var list watch.WatchList
	h.getJSON(reader, "/v1/watches", &list)
	for _, w := range list.Watches {
		found := 0
		h.until("the watch of "+w.Title()+" has found something", func() bool {
			var doc watch.WatchDocument
			h.getJSON(reader, "/v1/watches/"+w.ID, &doc)
			found = 0
			for _, n := range doc.Notices {
				if n.Edition == edition {
					found++
				}
			}
			return found > 0
		})
		if found != 1 {
			h.Errorf("the watch of %s found %d changes in edition %s, want 1", w.Title(), found, edition)
		}
	}
}
