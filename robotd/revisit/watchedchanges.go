package revisit

import (
	"maps"
	"time"

	"sheaf/archive"
	"sheaf/robotd/config"
	"sheaf/robotd/frontier"
)

// Stored takes note of a page's record that was stored. past is what was known of the page before
// the visit, and now what is known after it. known says that a full copy was known before. If the
// record is a change of a watched page, or any record of a page that somebody wants saved now, its
// host is due for an express batch. The caller must have the host's turn.
func (p *Pages) Stored(host string, e frontier.Entry, rec *archive.Record, past, now frontier.Visit, known bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.visitedLocked(host, e, rec.Kind, past, now, rec.Time)
	gone := rec.Kind == archive.Response && known && isGone(rec.HTTP)
	changed := (rec.Kind == archive.Page || gone) && covers(p.orders[host], rec.URL)
	if p.changed[host] || !changed && once(p.orders[host], rec.URL) == 0 {
		return nil
	}
	p.changed[host] = true
	return p.saveChanged()
}

// Express calls seal, which makes a batch, with the hosts that have a change, unless there is none
// or Express has called seal less than rest ago. If seal fails, the changes are kept.
func (p *Pages) Express(now time.Time, rest time.Duration, seal func(hosts map[string]bool) error) error {
	p.mu.Lock()
	hosts := p.changed
	if len(hosts) == 0 || now.Sub(p.last) < rest {
		p.mu.Unlock()
		return nil
	}
	p.changed, p.last = make(map[string]bool), now
	p.mu.Unlock()
	err := seal(hosts)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		maps.Copy(p.changed, hosts)
		return err
	}
	return p.saveChanged()
}

// saveChanged writes the file of hosts with a change: their pages may lie in open segments when the
// process ends.
func (p *Pages) saveChanged() error { return config.NoteJSON(p.path(changedFile), p.changed) }
