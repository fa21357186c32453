package records

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/account"
	"sheaf/serve/archives"
	"sheaf/serve/content"
	"sheaf/serve/visible"
)

// Capture is one record, as one account sees it in one version of the catalog. It can be read for
// hours after the call that returned it, because it does not need the catalog any more.
type Capture struct {
	*archive.Cell                      // must not be changed
	Segment       catalog.SegmentEntry // that has the record
	// Original is the page that a Revisit refers to; nil if that is not here, or not any more. Only
	// Captures sets it.
	Original *Capture

	host   *visible.Host
	finder *finder
	before int64 // length of the segment's records before it in a WARC view, in bytes
}

// Host returns the host of the record, as the account sees it.
func (c *Capture) Host() *visible.Host { return c.host }

// Captures returns the records of a URL by time and, for one instant, by publication. As in other web
// archives, records are found by the URL key (see archive.SURT): http and https, and the host with
// and without www, count as one URL, and Cell.URL tells them apart. Looking is allowed outside the
// account's window, too; bodies need a permit (see account.Access).
func (r *Records) Captures(ctx context.Context, a *account.Account, url string) ([]*Capture, error) {
	name, err := archive.HostOf(url)
	if err != nil {
		return nil, nil // no record has such a URL
	}
	v, err := r.archive.View(ctx, a)
	if err != nil {
		return nil, err
	}
	defer v.Release()
	hosts, err := siteHosts(ctx, v, name)
	if err != nil {
		return nil, fmt.Errorf("captures of %.200s: %w", url, err)
	}
	captures, err := r.finder().ofKey(ctx, hosts, archive.SURT(url))
	if err != nil {
		return nil, fmt.Errorf("captures of %.200s: %w", url, err)
	}
	setOriginals(captures)
	return captures, nil
}

// ofKey returns the records of one URL key, by time and publication.
func (f *finder) ofKey(ctx context.Context, hosts []*visible.Host, key string) (captures []*Capture, err error) {
	s := scan{finder: f, hosts: hosts, keys: keyRange{key, true}, wanted: func(*catalog.SegmentEntry) bool { return true }}
	err = s.each(ctx, func(is *found) error {
		if c := is.capture(f); c != nil {
			captures = append(captures, c)
		}
		return nil
	})
	return captures, err
}

// byTime orders records of one URL key by time, then by publication.
func byTime(a, b *Capture) int {
	return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Segment.Seq, b.Segment.Seq), cmp.Compare(a.Offset, b.Offset))
}

// siteHosts returns the hosts whose URLs have the same keys as those of a host: the host itself and
// its namesakes with and without www.
func siteHosts(ctx context.Context, v *visible.AccountView, name string) ([]*visible.Host, error) {
	names, err := namesakes(ctx, v, name)
	if err != nil {
		return nil, err
	}
	var hosts []*visible.Host
	for _, name := range names {
		h, err := v.Host(ctx, archive.HostPath(name))
		if err != nil {
			return nil, err
		}
		if h != nil {
			hosts = append(hosts, h)
		}
	}
	return hosts, nil
}

// namesakes returns the names that a host may have with and without www. It leaves out names such as
// www3 of which nothing is published.
func namesakes(ctx context.Context, v *visible.AccountView, name string) ([]string, error) {
	surt := archive.HostSURT(name)
	if key, _, _ := strings.Cut(archive.SURT("http://"+name+"/"), ")"); key != surt {
		_, name, _ = strings.Cut(name, ".") // the key has no www, and the name has
	}
	names := []string{name, "www." + name}
	if strings.HasPrefix(archive.HostPath(name), "_ip/") {
		return names[:1], nil
	}
	// www1 and the like lie beside one another: '/' sorts before the digits, ':' behind them.
	bare, port, hasPort := strings.Cut(name, ":")
	beside, err := v.Snap.Children(ctx, archive.HostPath(bare), "www/", visible.PageSize)
	if err != nil {
		return nil, err
	}
	for _, c := range beside {
		digits, ok := strings.CutPrefix(c.Name, "www")
		if !ok || digits >= ":" {
			break
		}
		digits, of, ported := strings.Cut(digits, "_")
		if c.Leaf && strings.Trim(digits, "0123456789") == "" && of == port && ported == hasPort {
			names = append(names, "www"+digits+"."+name)
		}
	}
	return names, nil
}

// Body opens the page's body; for a Revisit that of its Original. It fails with content.ErrNotFound
// if the record has none.
func (c *Capture) Body() (*archive.PageView, error) {
	if c.Original != nil {
		return c.Original.Body()
	}
	if c.Kind != archive.Page {
		return nil, fmt.Errorf("body of a %v: %w", c.Kind, content.ErrNotFound)
	}
	return archive.PageBodyOf(c.source(), c.Cell)
}

func (c *Capture) source() archive.Source { return c.finder.records.archive.Segments.Source(c.Segment) }

// Record opens the record itself as a WARC file has it, compressed: one gzip member of the WARC
// header, the stored HTTP header and the body.
func (c *Capture) Record(ctx context.Context) (io.ReadCloser, error) {
	alone := &archive.Index{Host: c.Segment.Host, Cells: []archive.Cell{*c.Cell}}
	view, err := archive.NewView(archive.WARC, []archive.Part{{Source: c.source(), Index: alone, Digest: c.Segment.SHA256}})
	if err != nil {
		return nil, fmt.Errorf("record of %.200s: %w", c.URL, err)
	}
	n := c.WARCLength()
	return view.OpenRange(ctx, view.Size()-n, n)
}

// Place says where the record lies in a WARC file: the path in the tree, without the slash before it,
// of the file that its edition brought of the host, and the offset there. Its length is WARCLength.
func (c *Capture) Place(ctx context.Context) (file string, offset int64, err error) {
	file, offset, err = archives.Of(c.host, c.finder.records.archive).WARCOffset(ctx, c.Segment, c.Offset, c.before)
	if err != nil {
		err = fmt.Errorf("place of %.200s: %w", c.URL, err)
	}
	return file, offset, err
}
