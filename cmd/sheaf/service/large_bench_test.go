package service

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/archive/store"
	"sheaf/archive/urlindex"
	"sheaf/internal/db"
	"sheaf/internal/testkit"
	"sheaf/serve/servetest"
)

// Hosts of a large archive whose segments are stored, beside the sampled ones. Those of all others
// are made up: they have an entry in the catalog and rows in the URL index.
const (
	smallHost = "www.small.co.jp" // 10 pages of 20 KB in each of 30 editions
	dailyHost = "www.daily.co.jp" // 5 pages in each of many editions
	vastHost  = "www.vast.co.jp"  // very many pages in one edition
)

// pagesEach is how many pages the other hosts have, and sampled how many of these are stored.
const pagesEach, sampled = 10, 200

// hostOf names the i-th host. One in five is in a domain with very many others.
func hostOf(i int) string {
	switch i % 5 {
	case 0:
		return fmt.Sprintf("h%07d.portal%02d.ne.jp", i, i%20)
	case 1:
		return fmt.Sprintf("www.site%07d.jp", i)
	}
	return fmt.Sprintf("www.site%07d.%s.jp", i, []string{"co", "or", "ac"}[i%3])
}

// pageOf is the URL of a host's n-th page.
func pageOf(host string, n int) string {
	return fmt.Sprintf("http://%s/dir%d/page%d.html", host, n%97, n)
}

// large is an archive of so many hosts, editions of dailyHost, and pages of vastHost.
type large struct{ hosts, editions, pages int }

// day is when the edition began, counted from 0.
func (large) day(edition int) time.Time {
	return time.Date(2024, 1, 1, 3, 0, 0, 0, time.UTC).AddDate(0, 0, edition)
}

// build makes the archive and its URL index in a new data directory, and returns the directory.
func (l large) build(b *testing.B) (data string) {
	s := servetest.New(b, nil)
	began := time.Now()
	l.publishStored(b, s)
	b.Logf("%d editions of stored segments: %v", l.editions, time.Since(began).Round(time.Second))
	began = time.Now()
	l.publishMadeUp(b, s)
	testkit.Must(b, s.Catalog.Merge(b.Context()))
	b.Logf("an edition of %d hosts: %v", l.hosts, time.Since(began).Round(time.Second))
	began = time.Now()
	index := urlindex.NewBuilder(s.Catalog, s.Store, urlindex.Options{TempDir: b.TempDir(), Log: slog.New(slog.DiscardHandler), Segment: l.segment(s)})
	testkit.Must(b, index.Update(b.Context()))
	b.Logf("the URL index: %v", time.Since(began).Round(time.Second))
	return filepath.Dir(s.Dir)
}

// publishStored publishes the editions of the hosts whose segments are stored.
func (l large) publishStored(b *testing.B, s *servetest.Site) {
	prose := strings.Repeat("<p>The archive keeps each page as it was.<a href=next.html>next</a><img src=i.gif>", 250)
	for e := range l.editions {
		day := l.day(e)
		hosts := make(map[string][]*archive.Record)
		add := func(host string, pages int, below string) {
			for n := range pages {
				body := fmt.Sprintf("<title>Page %d</title><p>as of edition %d%s", n, e, below)
				hosts[host] = append(hosts[host], servetest.Page(pageOf(host, n), body, day.Add(time.Duration(n)*time.Millisecond)))
			}
		}
		add(dailyHost, 5, "")
		if e >= l.editions-30 {
			add(smallHost, pagesEach, prose)
		}
		if e == l.editions-1 {
			add(vastHost, l.pages, "")
			for i := range sampled {
				add(hostOf(l.hosts+i), pagesEach, "")
			}
		}
		s.Publish(day.Format("20060102"), hosts)
		testkit.Must(b, s.Catalog.Merge(b.Context()))
	}
}

// publishMadeUp publishes one edition with some records of each other host.
func (l large) publishMadeUp(b *testing.B, s *servetest.Site) {
	batch, now := catalog.Batch{ID: "robot-1", SHA256: strings.Repeat("0", 64)}, l.day(l.editions)
	_, err := s.Catalog.Publish(b.Context(), catalog.Publication{Day: now.Format("20060102"), Batches: []catalog.Batch{batch}, Entries: func(yield func(catalog.SegmentEntry, error) bool) {
		for i := range l.hosts {
			host := hostOf(i)
			sum := sha256.Sum256([]byte(host))
			digest := hex.EncodeToString(sum[:])
			e := catalog.SegmentEntry{
				Host: host, Object: "segments/" + host + "/1.tar.gz", Length: 100_000, IndexOffset: 98_000, IndexLength: 1800, First: now, Last: now.Add(time.Minute),
				Records: pagesEach, Files: pagesEach, SHA256: digest, Origin: catalog.Origin{Batch: batch.ID, BatchSHA256: batch.SHA256, Robot: "robot"}, Views: map[string]catalog.View{},
			}
			for _, kind := range []string{"members", "single", "warc"} {
				e.Views[kind] = catalog.View{Size: 101_000, SHA256: digest, ETag: `"` + digest[:32] + `"`}
			}
			if !yield(e, nil) {
				return
			}
		}
	}})
	testkit.Must(b, err)
}

// segment returns the indexes of segments: those of stored ones as they are, and others made up.
func (large) segment(s *servetest.Site) func(context.Context, catalog.SegmentEntry) (*archive.Index, error) {
	return func(ctx context.Context, e catalog.SegmentEntry) (*archive.Index, error) {
		if e.Batch != "robot-1" {
			return archive.ReadIndexAt(ctx, store.Source(s.Store, e.Object, e.Offset), e.IndexOffset, e.IndexLength)
		}
		x := new(archive.Index)
		for n := range pagesEach {
			u := pageOf(e.Host, n)
			sum := sha256.Sum256([]byte(u))
			number := func(i int) uint32 { return binary.LittleEndian.Uint32(sum[i:]) }
			body := int64(5000 + number(0)%50_000)
			x.Cells = append(x.Cells, archive.Cell{
				Kind: archive.Page, URLKey: naming.SURT(u), URL: u, MIME: "text/html", Status: 200, Time: e.First.Add(time.Duration(n) * time.Second),
				Digest: "sha256:" + base32.StdEncoding.EncodeToString(sum[:]),
				Place: archive.Place{Offset: int64(n) * 12_000, TLen: 300 + int64(number(8)%40), BLen: 700 + body/4, HeaderLen: 1536, HeaderCRC: number(12),
					HeadLen: 480, BodyLen: body, BodyCRC: number(16), RecordCRC: number(20)},
			})
		}
		return x, nil
	}
}

// addHosts adds the hosts to the database, where one in a hundred waits for a decision, and
// batches.
func addHosts(b *testing.B, s *Service, hosts int) {
	tx, err := s.state.db.BeginTx(b.Context(), nil)
	testkit.Must(b, err)
	insert, err := tx.PrepareContext(b.Context(), `INSERT INTO hosts (name, state, source, created, grp) VALUES (?1, ?2, '', 0, ?1)`)
	testkit.Must(b, err)
	for i := range hosts {
		state := "accepted"
		if i%100 == 0 {
			state = "pending"
		}
		_, err := insert.ExecContext(b.Context(), hostOf(i), state)
		testkit.Must(b, err)
	}
	for i := range hosts / 10 {
		at := db.Millis(time.Now().Add(-time.Hour)) + int64(i)
		_, err := tx.ExecContext(b.Context(), `INSERT INTO ingest_batches (id, batch, robot, protocol, sha256, size, hosts, state, received_at, entered_at, collected)
			VALUES (?1, ?1, 'robot', 'http', 'x', 1000, 1, 'published', ?2, ?2, 1)`, fmt.Sprint("robot-", i), at)
		testkit.Must(b, err)
	}
	testkit.Must(b, tx.Commit())
}
