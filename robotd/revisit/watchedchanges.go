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

// TakeChanged returns the hosts with a change, unless some were taken less than rest ago. The
// caller must then call Sealed or PutBack.
func (p *Pages) TakeChanged(now time.Time, rest time.Duration) map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.changed) == 0 || now.Sub(p.last) < rest {
		return nil
	}
	hosts := p.changed
	p.changed, p.last = make(map[string]bool), now
	return hosts
}

// Sealed notes that the hosts that TakeChanged gave out are in a batch.
func (p *Pages) Sealed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.saveChanged()
}

// PutBack takes back hosts that TakeChanged gave out and that are in no batch.
func (p *Pages) PutBack(hosts map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.Copy(p.changed, hosts)
}

// saveChanged writes the file of hosts with a change: their pages may lie in open segments when the
// process ends.
func (p *Pages) saveChanged() error { return config.NoteJSON(p.path(changedFile), p.changed) }
