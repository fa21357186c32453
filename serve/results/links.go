package results

import (
	"context"
	"errors"
	"slices"
	"strings"

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
	Kind         string `parquet:"kind,dict"`            // what refers: an element, css, sitemap, feed, header, redirect
	Rel          string `parquet:"rel,optional,dict"`    // the words of the rel attribute
	Anchor       string `parquet:"anchor_text,optional"` // the text that refers, or that in place of an image
	NoFollow     bool   `parquet:"nofollow"`
}

// linkWriter writes a table of the links of records. It collects the records of a host, and reads
// the links of each of their segments once.
type linkWriter struct {
	*rowWriter[linkRow]
	from *library.Segments

	follow   bool   // a revisit has the links of the page to which it refers
	host     string // of the last record
	segments []linkSegment
}

// linkSegment is a segment and, by URL, the records that have the links of its pages.
type linkSegment struct {
	entry   catalog.SegmentEntry
	records map[string][]*records.Capture
}

func (w *linkWriter) Add(ctx context.Context, c *records.Capture) (err error) {
	if c.Segment.Host != w.host {
		if err := w.finishHost(ctx); err != nil {
			return err
		}
		w.host = c.Segment.Host
	}
	of := c
	if c.Kind == archive.Revisit { // its links are with the page to which it refers
		of = nil
		if w.follow {
			of, err = c.Resolve(ctx)
		}
		if err != nil || of == nil {
			return err
		}
	}
	i := slices.IndexFunc(w.segments, func(s linkSegment) bool { return s.entry.Seq == of.Segment.Seq })
	if i < 0 {
		i = len(w.segments)
		w.segments = append(w.segments, linkSegment{*of.Segment, map[string][]*records.Capture{}})
	}
	w.segments[i].records[of.URL] = append(w.segments[i].records[of.URL], c)
	return nil
}

// finishHost writes the links of the collected records.
func (w *linkWriter) finishHost(ctx context.Context) error {
	for _, s := range w.segments {
		err := library.EachLink(ctx, w.from, s.entry, func(source string, l archive.Link) error {
			for _, c := range s.records[source] {
				if err := w.write(linkRowOf(*c.Segment, c.Cell, l)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	w.segments = w.segments[:0]
	return nil
}

func linkRowOf(seg catalog.SegmentEntry, c *archive.Cell, l archive.Link) linkRow {
	r := linkRow{
		SourceKey: c.URLKey, Source: c.URL, SourceHost: seg.Host, Time: c.Time.UnixMicro(), Edition: seg.Edition,
		TargetKey: naming.SURT(l.URL), Target: l.URL, TargetHost: weburl.Host(l.URL), Rel: l.Rel, Anchor: l.Anchor,
	}
	r.TargetDomain, _ = publicsuffix.EffectiveTLDPlusOne(columnsOf(r.TargetHost).Name) // none of an IP address
	r.Kind, r.NoFollow = strings.CutSuffix(l.Kind, " nofollow")
	return r
}

func (w *linkWriter) finish(ctx context.Context) (rows int64, err error) {
	err = errors.Join(w.finishHost(ctx), w.Close())
	return w.rows, err
}
