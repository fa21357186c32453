package crawl

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"

	"sheaf/archive"
	"sheaf/internal/page"
	"sheaf/internal/preference"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
	"sheaf/robotd/batch"
	"sheaf/robotd/frontier"
)

// spooled counts, by host, the cycle's records that are in batches of the spool.
func (c *Crawl) spooled() (map[string]int, error) {
	batches, err := c.parts.Records.Batches.Spool()
	if err != nil {
		return nil, err
	}
	records := make(map[string]int)
	for _, b := range batches {
		manifest, err := wire.PeekManifest(b.Signed)
		if err != nil {
			return nil, err
		}
		for _, h := range manifest.Hosts {
			if !h.First.Before(c.hours.Round.Began) {
				records[h.Name] += int(h.Records)
			}
		}
	}
	return records, nil
}

// mend brings a host's queue into line with its open segment. spooled is the number of the cycle's
// records that are in batches. If the queue has lost too much for that, mend builds it anew and
// returns true.
func (c *Crawl) mend(ctx context.Context, front *frontier.Host, spooled int) (rebuilt bool, err error) {
	if !front.Damaged() {
		segment, found, err := c.parts.Records.Batches.Resume(front.Name)
		if err != nil {
			return false, err
		}
		if !front.Lost(len(found) + spooled) {
			if segment == "" {
				return false, nil
			}
			cells := make([]frontier.Cell, len(found))
			for i, cell := range found {
				cells[i] = frontier.Cell{URL: cell.URL, End: cell.Offset + cell.TLen + cell.BLen}
			}
			_, err = front.Align(segment, cells)
			return false, err
		}
	}
	return true, c.rebuild(ctx, front)
}

// rebuild builds a damaged queue anew, from what can be read of it and from the stored pages of the
// cycle.
func (c *Crawl) rebuild(ctx context.Context, front *frontier.Host) error {
	segment, stored, err := c.stored(ctx, front.Name)
	if err != nil {
		return err
	}
	end := int64(0)
	var cells []frontier.Cell
	for _, r := range stored {
		end = max(end, r.End)
		if !preference.IsRobotsTxt(r.URL) { // which is not visited as a page
			cells = append(cells, frontier.Cell{URL: r.URL, End: r.End, Visit: visitOf(&r.Cell), Again: r.Status/100 == 3 && r.Kind == archive.Response})
		}
	}
	unseen, err := front.Rebuild(segment, end, cells)
	if err != nil {
		return err
	}
	c.parts.Log.WarnContext(ctx, "the host's queue was damaged and is rebuilt", "host", front.Name, "stored", len(stored), "published", unseen)
	if unseen == 0 {
		return nil
	}
	// Links of published pages may be lost. The next cycle takes all pages in full and finds them.
	c.parts.Records.Watched.Forget(front.Name)
	return nil
}

// stored returns the cycle's records of a host that are on this disk, and the name of its open
// segment.
func (c *Crawl) stored(ctx context.Context, host string) (segment string, cycle []batch.Cell, err error) {
	segment, all, err := c.parts.Records.Batches.Stored(ctx, host)
	return segment, slices.DeleteFunc(all, func(r batch.Cell) bool { return r.Time.Before(c.hours.Round.Began) }), err
}

func visitOf(cell *archive.Cell) frontier.Visit {
	switch {
	case cell.Kind == archive.Page && cell.Truncated == "":
		return frontier.Visit{Digest: cell.Digest, Full: cell.Time}
	case cell.Status == http.StatusNotFound || cell.Status == http.StatusGone:
		return frontier.Visit{Gone: true}
	}
	return frontier.Visit{}
}

// relink queues again the links from stored pages of all hosts to the hosts that had damaged
// queues. Links that are queued already are not queued twice.
func (c *Crawl) relink(ctx context.Context, damaged map[string]bool) error {
	if len(damaged) == 0 {
		return nil
	}
	for _, h := range c.Hosts() {
		_, stored, err := c.stored(ctx, h.Name)
		if err != nil {
			return err
		}
		for _, r := range stored {
			if r.Kind != archive.Page {
				continue
			}
			p, err := parse(ctx, &r)
			if err != nil {
				return err
			}
			if p.Robots.NoFollow {
				continue
			}
			again := links{crawl: c, host: h}
			for i := range p.Links {
				if damaged[weburl.Host(p.Links[i].URL)] {
					again.followLink(&p.Links[i], 1)
				}
			}
			if err := again.queue(true); err != nil {
				return err
			}
		}
	}
	return nil
}

// parse parses a stored page; a long one as a stream, if its type allows.
func parse(ctx context.Context, r *batch.Cell) (*page.Page, error) {
	body, err := r.Body(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	head, err := io.ReadAll(io.LimitReader(body, page.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(head) > page.MaxBytes && page.Streams(head, r.MIME) {
		return page.Stream(io.MultiReader(bytes.NewReader(head), body), r.MIME, r.URL)
	}
	return page.Links(head, r.MIME, r.URL)
}
