package results

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/net/publicsuffix"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/internal/weburl"
	"sheaf/serve/library"
	"sheaf/serve/records"
)

// linkRow is one row of the table of links: one reference of a page to another resource.
type linkRow struct {
	SourceKey    string `parquet:"source_surtkey"`
	Source       string `parquet:"source_url"`
	SourceHost   string `parquet:"source_host,dict"` // with its port
	Time         int64  `parquet:"fetch_time,timestamp(microsecond)"`
	Edition      string `parquet:"edition,dict"`
	TargetKey    string `parquet:"target_surtkey"`
	Target       string `parquet:"target_url"`
	TargetHost   string `parquet:"target_host,dict"`
	TargetDomain string `parquet:"target_registered_domain,optional,dict"`
	Kind         string `parquet:"kind,dict"` // what refers: an element, css, sitemap, feed, header, redirect
	NoFollow     bool   `parquet:"nofollow"`
}

// linkWriter writes a table of the links of records. It collects the records of a host, and reads
// the links of each of the host's segments once.
type linkWriter struct {
	to   *parquet.GenericWriter[linkRow]
	from *library.Segments
	next []linkRow
	rows int64
	size counted

	segments []linkSegment // of the host of the last record
}

// linkSegment is a segment and the records whose links are wanted, by URL.
type linkSegment struct {
	entry   catalog.SegmentEntry
	records map[string]*records.Capture
}

func newLinkWriter(to io.Writer, from *library.Segments) *linkWriter {
	w := &linkWriter{size: counted{Writer: to}, from: from}
	w.to = newParquet[linkRow](&w.size)
	return w
}

func (w *linkWriter) Size() int64 { return w.size.bytes }

func (w *linkWriter) Add(ctx context.Context, c *records.Capture) error {
	if n := len(w.segments); n > 0 && w.segments[n-1].entry.Host != c.Segment.Host {
		if err := w.finishHost(ctx); err != nil {
			return err
		}
	}
	if c.Kind == archive.Revisit { // its links are with the page to which it refers
		return nil
	}
	i := slices.IndexFunc(w.segments, func(s linkSegment) bool { return s.entry.Seq == c.Segment.Seq })
	if i < 0 {
		i = len(w.segments)
		w.segments = append(w.segments, linkSegment{c.Segment, map[string]*records.Capture{}})
	}
	w.segments[i].records[c.URL] = c
	return nil
}

// finishHost writes the links of the collected records.
func (w *linkWriter) finishHost(ctx context.Context) error {
	for _, s := range w.segments {
		err := library.EachLink(ctx, w.from, s.entry, func(source, target, kind string) error {
			c := s.records[source]
			if c == nil {
				return nil
			}
			w.rows++
			if w.next = append(w.next, linkRowOf(c, target, kind)); len(w.next) < atOnce {
				return nil
			}
			return w.flush()
		})
		if err != nil {
			return err
		}
	}
	w.segments = w.segments[:0]
	return nil
}

func linkRowOf(c *records.Capture, target, kind string) linkRow {
	r := linkRow{
		SourceKey: c.URLKey, Source: c.URL, SourceHost: c.Segment.Host, Time: c.Time.UnixMicro(), Edition: c.Segment.Edition,
		TargetKey: naming.SURT(target), Target: target, TargetHost: weburl.Host(target),
	}
	r.TargetDomain, _ = publicsuffix.EffectiveTLDPlusOne(columnsOf(r.TargetHost).Name) // none of an IP address
	r.Kind, r.NoFollow = strings.CutSuffix(kind, " nofollow")
	return r
}

func (w *linkWriter) flush() error {
	_, err := w.to.Write(w.next)
	w.next = w.next[:0]
	return err
}

func (w *linkWriter) finish(ctx context.Context) error {
	return errors.Join(w.finishHost(ctx), w.flush(), w.to.Close())
}
