package serve_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/serve/library"
	"sheaf/serve/servetest"
)

// The tars of seven days of two real sites are hardly larger than what changed in these days: the
// pages' bodies, each deflated by itself. All other pages were visited every night, and found
// unchanged.
//
//	SHEAF_TEST_FULL=1 go test ./serve -v -run SevenDaysOfRealPages
func TestSevenDaysOfRealPages(t *testing.T) {
	testkit.Long(t)
	firstOf := map[string]int{"help.sakura.jp": 4, "www.boost.jp": 36} // the first day that is published
	sites, days := make(map[string]map[string][]byte), [7]map[string][]byte{}
	for i := range days {
		days[i] = make(map[string][]byte)
	}
	ofDay := func(host, day string) int {
		n, err := strconv.Atoi(strings.TrimSuffix(day, ".deleted"))
		if i := n - firstOf[host]; err == nil && i >= 0 && i < len(days) {
			return i
		}
		return -1
	}
	part := func(name string) (kind, host, rest string) {
		kind, rest, _ = strings.Cut(name, "/")
		host, rest, _ = strings.Cut(rest, "/")
		return kind, strings.TrimSuffix(host, ".test"), rest
	}
	wanted := func(name string) bool {
		kind, host, rest := part(name)
		day, _, _ := strings.Cut(rest, "/")
		return firstOf[host] > 0 && (kind == "sites" || kind == "days" && ofDay(host, day) >= 0)
	}
	for name, content := range testkit.CorpusFiles(t, wanted) {
		kind, host, rest := part(name)
		if kind == "sites" {
			if sites[host] == nil {
				sites[host] = make(map[string][]byte)
			}
			sites[host]["http://"+host+"/"+rest] = content
			continue
		}
		day, file, _ := strings.Cut(rest, "/")
		i := ofDay(host, day)
		if file != "" {
			days[i]["http://"+host+"/"+file] = content
			continue
		}
		for gone := range strings.FieldsSeq(string(content)) {
			days[i]["http://"+path.Join(host, gone)] = nil
		}
	}
	p := newPast(t, testkit.Random(t))
	since := make(map[string]time.Time)
	publish := func(changed map[string][]byte) string {
		records := make(map[string][]*archive.Record)
		for host, pages := range sites {
			for url, body := range changed {
				if strings.HasPrefix(url, "http://"+host+"/") {
					pages[url] = body
				}
			}
			for url, body := range pages {
				var r *archive.Record
				switch _, now := changed[url]; {
				case body == nil && !now:
					continue
				case body == nil:
					r = servetest.Answer(url, 404, p.now)
				case now || changed == nil:
					r, since[url] = servetest.Page(url, string(body), p.now), p.now
				default:
					r = servetest.Again(url, string(body), since[url], p.now)
				}
				records[host] = append(records[host], r)
			}
		}
		p.Publish("", records)
		day := p.now.Format("20060102")
		p.now = p.now.AddDate(0, 0, 1)
		return day
	}
	publish(nil)
	var tars, records, bodies int64
	kinds := make(map[string]int)
	for _, changed := range days {
		day := publish(changed)
		for _, name := range names(t, p.Library, everyone, "/days/"+day+"/jp") {
			if strings.HasSuffix(name, ".tar.gz") {
				tars += int64(len(read(t, p.Library, everyone, "/days/"+day+"/jp/"+name)))
			}
		}
		for _, l := range dayChanges(t, p.Library, everyone, day) {
			kinds[l.Change]++
			if l.Change == library.ChangeNew || l.Change == library.ChangeChanged {
				records += l.WARC.Length
			}
		}
		for _, body := range changed {
			var zipped bytes.Buffer
			w := gzip.NewWriter(&zipped)
			_, err := w.Write(body)
			testkit.Must(t, err)
			testkit.Must(t, w.Close())
			if body != nil {
				bodies += int64(zipped.Len())
			}
		}
	}
	t.Logf("%v: the tars have %d bytes, the pages' bodies %d (%.3f), their records %d (%.3f)",
		fmt.Sprint(kinds), tars, bodies, float64(tars)/float64(bodies), records, float64(tars)/float64(records))
	if float64(tars) > 1.05*float64(bodies) || kinds[library.ChangeChanged] < 100 || kinds[library.ChangeUnchanged] < 1000 {
		t.Errorf("seven days of tar have %d bytes, what changed %d: %v", tars, bodies, kinds)
	}
}
