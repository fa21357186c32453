package robotd

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"sheaf/archive"
	"sheaf/internal/weburl"
	"sheaf/robotd/batch"
	"sheaf/robotd/extract"
	"sheaf/robotd/frontier"
)

// mend makes a host's queue anew, of which the disk has lost parts, from what can be
// read of it and from the pages of the cycle that are stored here.
func (c *crawl) mend(ctx context.Context, front *frontier.Host) error {
	segment, stored, err := c.storedOf(ctx, front.Name)
	if err != nil {
		return err
	}
	end := int64(0)
	cells := make([]frontier.Cell, len(stored))
	for i, r := range stored {
		cells[i] = frontier.Cell{URL: r.URL, End: r.End, Visit: visitOf(&r.Cell), Again: r.Status/100 == 3 && r.Kind == archive.Response}
		end = max(end, r.End)
	}
	unseen, err := front.Rebuild(segment, end, cells)
	if err != nil {
		return err
	}
	c.log.Warn("the host's queue was damaged and is rebuilt", "host", front.Name, "stored", len(stored), "published", unseen)
	if unseen == 0 {
		return nil
	}
	// Links of published pages may be lost. The next cycle takes all in full and finds them.
	c.watches.forget(front.Name)
	return c.frontier.ForgetVisits(front.Name)
}

// storedOf returns the records of the cycle that lie here, and the open segment's name.
func (c *crawl) storedOf(ctx context.Context, host string) (segment string, cycle []batch.Stored, err error) {
	c.Robot.mu.Lock()
	began := c.cycle.Began
	c.Robot.mu.Unlock()
	segment, all, err := c.batches.Stored(ctx, host)
	for _, r := range all {
		if !r.Time.Before(began) {
			cycle = append(cycle, r)
		}
	}
	return segment, cycle, err
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

// relink queues again what the stored pages of all hosts link to on those whose
// queues were damaged. What is queued already stays so.
func (c *crawl) relink(ctx context.Context, damaged map[string]bool) error {
	if len(damaged) == 0 {
		return nil
	}
	for _, h := range c.all() {
		_, stored, err := c.storedOf(ctx, h.name)
		if err != nil {
			return err
		}
		for _, r := range stored {
			if r.Kind != archive.Page {
				continue
			}
			t := &turn{name: h.name, host: h}
			if err := c.linksOf(ctx, t, &r, damaged); err != nil {
				return err
			}
			if err := c.queue(t); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *crawl) linksOf(ctx context.Context, t *turn, r *batch.Stored, to map[string]bool) error {
	body, err := r.Body(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, extract.MaxBytes+1))
	if err != nil {
		return err
	}
	p, err := linksIn(text, body, r.MIME, r.URL)
	if err != nil {
		return err
	}
	if p.Robots.NoFollow {
		return nil
	}
	for _, link := range p.Links {
		if to[weburl.Host(link.URL)] && c.wanted(&link) {
			c.follow(t, link.URL, frontier.Entry{Depth: 1})
		}
	}
	return nil
}

// linksIn searches a body whose beginning was read already: all that a page is searched for, and a byte.
func linksIn(head []byte, rest io.Reader, contentType, url string) (*extract.Page, error) {
	if len(head) > extract.MaxBytes && extract.Streams(head, contentType) {
		return extract.Stream(io.MultiReader(bytes.NewReader(head), rest), contentType, url)
	}
	return extract.Links(head, contentType, url)
}
