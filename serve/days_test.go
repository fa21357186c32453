package serve_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/testkit"
	"sheaf/serve/library"
	"sheaf/serve/reading"
	"sheaf/serve/servetest"
)

// A day is all editions that are named by it. Small ones share a volume; a large one has its own;
// and what is published later changes no volume but the last.
func TestDayOfManyEditions(t *testing.T) {
	s := servetest.New(t, nil)
	lib, err := reading.New(reading.Options{Catalog: s.Catalog, Store: s.Store, Accounts: s.Accounts, Volume: 256 << 10})
	testkit.Must(t, err)
	page := func(host, text string, n int) map[string][]*archive.Record {
		return map[string][]*archive.Record{host: {servetest.Page("http://"+host+"/", text, dayOne.Add(time.Duration(n)*time.Minute))}}
	}
	random := testkit.Random(t)
	large := make([]byte, 80<<10)
	for i := range large {
		large[i] = byte(random.Uint32())
	}
	const dir = "/days/20261120/jp"
	tags := func() map[string]string {
		of := make(map[string]string)
		for n, err := range lib.Tree.List(t.Context(), everyone, dir) {
			testkit.Must(t, err)
			of[n.Name] = n.ETag
		}
		return of
	}
	var bodies []string
	was := map[string]string{}
	for n := range 40 {
		host, text := fmt.Sprintf("www.u%d.ac.jp", n%3), fmt.Sprint("text ", n)
		if n == 20 {
			text = string(large)
		}
		bodies = append(bodies, text)
		s.Publish("20261120", page(host, text, n))
		last := fmt.Sprintf("%05d", (len(was)-1)/3)
		now := tags()
		for name, tag := range was {
			if volume, _, _ := library.CutVolume(name); volume != "" && volume != last && now[name] != tag {
				t.Fatalf("edition %d: %s had the ETag %s and has %s", n+1, name, tag, now[name])
			}
		}
		was = now
	}
	if volumes := (len(was) - 1) / 3; volumes < 3 || volumes > 12 {
		t.Errorf("40 editions lie in %d volumes", volumes)
	}
	var got []string
	for name := range was {
		volume, ok := strings.CutSuffix(name, ".tar.gz")
		if !ok {
			continue
		}
		tgz, warc := read(t, lib, everyone, dir+"/"+name), read(t, lib, everyone, dir+"/"+volume+".warc.gz")
		got = append(got, pages(t, tgz)...)
		for _, line := range volumeLines(t, lib, everyone, dir+"/"+volume) {
			if sum := line.WARC.SHA256; sum != "" && sum != servetest.SHA256(warc[line.WARC.Offset:][:line.WARC.Length]) {
				t.Errorf("%s: %s has another digest", volume, line.Host)
			}
		}
	}
	slices.Sort(got)
	slices.Sort(bodies)
	if !slices.Equal(got, bodies) {
		t.Errorf("the day has %d pages, %d were published", len(got), len(bodies))
	}
}

// The MANIFEST of a day says first whether the day is complete.
func TestDayIsComplete(t *testing.T) {
	s := servetest.New(t, nil)
	tokyo := time.FixedZone("JST", 9*60*60)
	now := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC) // 23:00
	var err error
	s.Catalog, err = catalog.Open(t.Context(), s.Store, catalog.Options{Now: func() time.Time { return now }, Location: tokyo})
	testkit.Must(t, err)
	lib, err := reading.New(reading.Options{Catalog: s.Catalog, Store: s.Store, Accounts: s.Accounts})
	testkit.Must(t, err)
	publish := func(text string) string {
		return s.Publish("", map[string][]*archive.Record{"www.waseda.ac.jp": {servetest.Page(waseda, text, now)}})
	}
	want := func(day string, complete bool, modified time.Time) {
		t.Helper()
		dir := "/days/" + day + "/jp/"
		line, rest, _ := bytes.Cut(read(t, lib, everyone, dir+library.Manifest), []byte("\n"))
		var of library.DayLine
		testkit.Must(t, json.Unmarshal(line, &of))
		if of != (library.DayLine{Day: day, Complete: complete}) || len(rest) == 0 {
			t.Errorf("at %v: %s", now, line)
		}
		if n, err := lib.Tree.Stat(t.Context(), everyone, dir+library.Manifest); err != nil || !n.Modified.Equal(modified) {
			t.Errorf("at %v: it was modified at %v, %v; want %v", now, n.Modified, err, modified)
		}
	}
	published := now
	if got := publish("one"); got != "20261120" {
		t.Fatal(got)
	}
	want("20261120", false, published)
	now = time.Date(2026, 11, 20, 15, 29, 59, 0, time.UTC)
	want("20261120", false, published)
	now = time.Date(2026, 11, 20, 15, 30, 0, 0, time.UTC)
	want("20261120", true, now)
	now = time.Date(2026, 11, 21, 14, 59, 59, 0, time.UTC)
	publish("two")
	want("20261121", false, now)
	want("20261120", true, time.Date(2026, 11, 20, 15, 30, 0, 0, time.UTC))
	published, now = now, time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC)
	want("20261121", false, published)
	if got := publish("three"); got != "20261122" {
		t.Fatal(got)
	}
	want("20261121", true, now)
}
