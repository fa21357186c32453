package results

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/archive/sortedrun"
	"sheaf/internal/weburl"
	"sheaf/serve/account"
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

// linkHostRow is one row of the table of linking hosts: how much of a host refers to a site. A site
// is a host and its namesakes with and without www, as in library.Target.
type linkHostRow struct {
	TargetKey    string `parquet:"target_surtkey"` // the common beginning of the keys of the site's URLs, such as jp,ac,waseda)
	TargetHost   string `parquet:"target_host"`    // of the sample
	SourceHost   string `parquet:"source_host"`
	Pages        int64  `parquet:"pages"`             // of the source, that have links to the target
	Links        int64  `parquet:"links"`             // on these pages
	SampleSource string `parquet:"sample_source_url"` // one of the pages
	SampleTarget string `parquet:"sample_target_url"` // where it leads
}

// sortMemory is how many bytes of rows are sorted in memory. There are two sorters at once.
const sortMemory = 16 << 20

// MakeLinks makes three tables for a volume of the latest versions: its links sorted by page, its
// links sorted by target, and the hosts that link to other sites. Each list of links is read once.
func (x *Files) MakeLinks(ctx context.Context, a *account.Account, v *library.Volume) (links, inlinks, hosts *Table, err error) {
	byTarget, byHost := sortedrun.NewSorter("", sortMemory, bytes.Compare), sortedrun.NewSorter("", sortMemory, bytes.Compare)
	defer byTarget.Close()
	defer byHost.Close()
	links, err = x.write(ctx, a, func(to io.Writer) (int64, error) {
		w := newRowWriter[linkRow](to)
		err := v.EachLink(ctx, func(seg catalog.SegmentEntry, c *archive.Cell, l archive.Link) error {
			row := linkRowOf(seg, c, l)
			err := errors.Join(w.write(row), byTarget.Add(row.line()))
			if site := siteOf(row.TargetKey); err == nil && site != siteOf(row.SourceKey) {
				err = byHost.Add(fmt.Appendf(nil, "%s\t%s\t%s\t%s\n", site, row.SourceHost, row.Source, row.Target))
			}
			return err
		})
		return w.rows, errors.Join(err, w.Close())
	})
	if err != nil {
		return nil, nil, nil, err
	}
	inlinks, err = x.write(ctx, a, func(to io.Writer) (int64, error) {
		w := newRowWriter[linkRow](to)
		err := eachLine(ctx, byTarget, func(f []string) error { return w.write(rowOfLine(f)) })
		return w.rows, errors.Join(err, w.Close())
	})
	if err == nil {
		hosts, err = x.write(ctx, a, func(to io.Writer) (int64, error) { return writeLinkHosts(ctx, to, byHost) })
	}
	return links, inlinks, hosts, err
}

// siteOf returns the part of a URL key that tells the site, such as jp,ac,waseda).
func siteOf(key string) string {
	site, _, _ := strings.Cut(key, ")")
	return site + ")"
}

// line returns the row as text. Lines sort by target key, then by source key.
func (r *linkRow) line() []byte {
	return fmt.Appendf(nil, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%t\t%s\t%s\t%s\n", r.TargetKey, r.SourceKey, r.Target, r.Source,
		r.SourceHost, r.TargetHost, r.TargetDomain, r.Time, r.Edition, r.NoFollow, r.Kind, r.Rel, r.Anchor)
}

// rowOfLine is the inverse of line.
func rowOfLine(f []string) linkRow {
	at, _ := strconv.ParseInt(f[7], 10, 64)
	return linkRow{
		TargetKey: f[0], SourceKey: f[1], Target: f[2], Source: f[3], SourceHost: f[4], TargetHost: f[5], TargetDomain: f[6],
		Time: at, Edition: f[8], NoFollow: f[9] == "true", Kind: f[10], Rel: f[11], Anchor: f[12],
	}
}

// eachLine calls fn with the fields of the sorted lines.
func eachLine(ctx context.Context, from *sortedrun.Sorter, fn func([]string) error) error {
	rows, err := from.Rows(ctx)
	for err == nil && rows.Row() != nil {
		if err = fn(strings.Split(string(rows.Row()), "\t")); err == nil {
			err = rows.Next(ctx)
		}
	}
	return err
}

func writeLinkHosts(ctx context.Context, to io.Writer, from *sortedrun.Sorter) (rows int64, err error) {
	w := newRowWriter[linkHostRow](to)
	var row linkHostRow
	last := ""
	put := func() error {
		if row.Links == 0 {
			return nil
		}
		return w.write(row)
	}
	err = eachLine(ctx, from, func(f []string) error {
		if f[0] != row.TargetKey || f[1] != row.SourceHost {
			if err := put(); err != nil {
				return err
			}
			row = linkHostRow{TargetKey: f[0], SourceHost: f[1], SampleSource: f[2], SampleTarget: f[3]}
			row.TargetHost, _ = naming.HostOf(f[3])
			last = ""
		}
		if f[2] != last {
			row.Pages++
			last = f[2]
		}
		row.Links++
		return nil
	})
	err = errors.Join(err, put(), w.Close())
	return w.rows, err
}
