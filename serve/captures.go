package serve

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/account"
)

// Capture is one record, as one account sees it at one version of the catalog. What
// it refers to stays readable for hours after the call that gave it.
type Capture struct {
	*archive.Cell                      // not to be changed
	Line          catalog.SegmentEntry // of the segment that it lies in
	// Original is the page that a Revisit refers to; nil where that is not here,
	// or not any more. It is set by Captures alone.
	Original *Capture

	host   *host
	before int64 // bytes of the records before it in the segment's WARC view
}

// Captures returns the records of a URL in the order of time and, of the same
// instant, of publication. As in other web archives it is the URL key (see
// archive.SURT) by which records are found: http and https, and the host with and
// without www, count as one, whose records Cell.URL tells apart. Looking around
// is allowed outside the account's window too; see Admit for the bodies.
func (l *Library) Captures(ctx context.Context, a *account.Account, url string) ([]*Capture, error) {
	v, err := l.visit(ctx, a)
	if err != nil {
		return nil, err
	}
	defer v.snap.Release()
	captures, err := v.captures(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("captures of %.200s: %w", url, err)
	}
	return captures, nil
}

func (v *visit) captures(ctx context.Context, url string) ([]*Capture, error) {
	name, err := archive.HostOf(url)
	if err != nil {
		return nil, nil // nothing is kept of such
	}
	hosts, err := v.site(ctx, name)
	if err != nil {
		return nil, err
	}
	captures, err := v.ofKey(ctx, hosts, archive.SURT(url))
	if err != nil {
		return nil, err
	}
	resolve(captures)
	return captures, nil
}

// ofKey returns the records of one URL key, by time and publication.
func (v *visit) ofKey(ctx context.Context, hosts []*host, key string) (captures []*Capture, err error) {
	s := scan{visit: v, hosts: hosts, keys: keyRange{key, true}, wanted: func(*catalog.SegmentEntry) bool { return true }}
	err = s.each(ctx, func(is *found) error {
		if c := is.capture(); c != nil {
			captures = append(captures, c)
		}
		return nil
	})
	return captures, err
}

// byPlace puts records of one URL key in the order of time, then of publication.
func byPlace(a, b *Capture) int {
	return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Line.Seq, b.Line.Seq), cmp.Compare(a.Offset, b.Offset))
}

// site returns the hosts, as the account sees them, whose URLs have the same keys
// as those of the host named: it and its namesakes with and without www.
func (v *visit) site(ctx context.Context, name string) ([]*host, error) {
	names, err := v.namesakes(ctx, name)
	if err != nil {
		return nil, err
	}
	var hosts []*host
	for _, name := range names {
		h, err := v.host(ctx, archive.HostPath(name))
		if err != nil {
			return nil, err
		}
		if h != nil {
			hosts = append(hosts, h)
		}
	}
	return hosts, nil
}

// namesakes returns the names that a host may have with and without www, as far
// as something may be there.
func (v *visit) namesakes(ctx context.Context, name string) ([]string, error) {
	surt := archive.HostSURT(name)
	if key, _, _ := strings.Cut(archive.SURT("http://"+name+"/"), ")"); key != surt {
		_, name, _ = strings.Cut(name, ".") // is www's, as the key is without it
	}
	names := []string{name, "www." + name}
	if strings.HasPrefix(archive.HostPath(name), "_ip/") {
		return names[:1], nil
	}
	// www1 and the like lie beside one another: '/' sorts below the digits, ':' above.
	bare, port, hasPort := strings.Cut(name, ":")
	beside, err := v.snap.Children(ctx, archive.HostPath(bare), "www/", page)
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

// Body opens the page's body; of a Revisit that of its Original. ErrNotFound says
// that the record holds none.
func (c *Capture) Body() (*archive.PageView, error) {
	if c.Original != nil {
		return c.Original.Body()
	}
	if c.Kind != archive.Page {
		return nil, fmt.Errorf("body of a %v: %w", c.Kind, ErrNotFound)
	}
	return archive.PageBodyOf(c.host.source(c.Line), c.Cell)
}

// Record opens the record itself as a WARC file holds it, uninflated: one gzip
// member of the WARC header, the stored HTTP header and the body.
func (c *Capture) Record(ctx context.Context) (io.ReadCloser, error) {
	alone := &archive.Index{Host: c.Line.Host, Cells: []archive.Cell{*c.Cell}}
	view, err := archive.NewView(archive.WARC, []archive.Part{{Source: c.host.source(c.Line), Index: alone, Digest: c.Line.SHA256}})
	if err != nil {
		return nil, fmt.Errorf("record of %.200s: %w", c.URL, err)
	}
	n := c.WARCLength()
	return view.OpenRange(ctx, view.Size()-n, n)
}
