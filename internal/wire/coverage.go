package wire

import (
	"fmt"
	"maps"
	"regexp"
	"time"
)

// Coverage counts the results for one host's pages between the robot's previous batch and this one.
// The counts of a day are the sums over its batches, except Left and Later, which are those of the
// last batch. Fields that are zero are omitted.
type Coverage struct {
	Host      string           `json:"host"`
	Collected int64            `json:"collected,omitempty"` // pages, archived in full
	Unchanged int64            `json:"unchanged,omitempty"` // pages archived as revisits
	Answers   map[string]int64 `json:"answers,omitempty"`   // archived answers that are not pages, by status: "301", "404"
	Truncated map[string]int64 `json:"truncated,omitempty"` // of the collected pages, by WARC's reasons
	Marked    map[string]int64 `json:"marked,omitempty"`    // of the answers: "blocked", "soft404", "parked", "priced", "licence"
	Refused   int64            `json:"refused,omitempty"`   // disallowed by robots.txt, or left out because their owner asked
	Withheld  int64            `json:"withheld,omitempty"`  // fetched, but not archived because the page asks not to be
	Failed    map[string]int64 `json:"failed,omitempty"`    // given up after all tries, by what happened: "dns", "timeout", "503"
	Cut       map[string]int64 `json:"cut,omitempty"`       // links not followed, by what cut them: "depth", "length", "host_full", "page_links"; robotd/batch lists them
	Left      int64            `json:"left,omitempty"`      // URLs still queued when the batch was made
	LeftWhy   string           `json:"left_why,omitempty"`  // why: "window", "size", "host" (the host fails or is not found) or "cycle"
	Later     int64            `json:"later,omitempty"`     // known pages that wait for a later cycle, since this one has no time for them
	URLs      []CoveredURL     `json:"urls,omitempty"`      // some of the pages that were not collected
	More      bool             `json:"more,omitempty"`      // URLs does not list all of them
}

// maxCovered limits each count of a Coverage, so that sums over many batches cannot overflow.
const maxCovered = 1 << 40

var (
	coveredHost   = regexp.MustCompile(`^[0-9a-z._:\[\]-]{1,300}$`)
	coveredReason = regexp.MustCompile(`^[0-9A-Za-z _.:/+-]{0,100}$`)
)

// check returns an error if a count, a name or a reason is not valid. All of them are shown to
// readers.
func (c *Coverage) check() error {
	if !coveredHost.MatchString(c.Host) {
		return fmt.Errorf("%.100q is no host", c.Host)
	}
	if !coveredReason.MatchString(c.LeftWhy) {
		return fmt.Errorf("host %s: left_why %.100q is no reason", c.Host, c.LeftWhy)
	}
	counts := map[string]int64{
		"collected": c.Collected, "unchanged": c.Unchanged, "refused": c.Refused, "withheld": c.Withheld, "left": c.Left, "later": c.Later,
	}
	for kind, reasons := range map[string]map[string]int64{
		"answers": c.Answers, "truncated": c.Truncated, "marked": c.Marked, "failed": c.Failed, "cut": c.Cut,
	} {
		for reason := range reasons {
			if !coveredReason.MatchString(reason) {
				return fmt.Errorf("host %s: %s: %.100q is no reason", c.Host, kind, reason)
			}
		}
		maps.Copy(counts, reasons)
	}
	for what, n := range counts {
		if n < 0 || n > maxCovered {
			return fmt.Errorf("host %s: %s is %d; it may be 0 to %d", c.Host, what, n, int64(maxCovered))
		}
	}
	for _, u := range c.URLs {
		if !coveredReason.MatchString(u.Why) {
			return fmt.Errorf("host %s: why %.100q is no reason", c.Host, u.Why)
		}
	}
	return nil
}

// CoveredURL names a URL that was not collected.
type CoveredURL struct {
	URL string `json:"url"`
	Why string `json:"why"` // a kind and, after a space, the reason: "failed timeout", "marked parked"
}

// Clock is the difference between the robot's clock and the manager's, measured from the manager's
// answers.
type Clock struct {
	OffsetMS int64 `json:"offset_ms"` // robot's time minus manager's, in milliseconds
	ErrorMS  int64 `json:"error_ms"`  // the true offset differs by at most this many milliseconds
}

// ClockOff is the difference between a robot's clock and the manager's beyond which somebody must
// set the robot's clock.
const ClockOff = time.Minute

// Wrong returns by how much the robot's clock is ahead of the manager's, to the second; a negative
// result means behind. If the difference may be ClockOff or less, or c is nil, Wrong returns 0.
func (c *Clock) Wrong() time.Duration {
	if c == nil || max(c.OffsetMS, -c.OffsetMS)-c.ErrorMS <= ClockOff.Milliseconds() {
		return 0
	}
	return (time.Duration(c.OffsetMS) * time.Millisecond).Round(time.Second)
}

// Collection describes archives that were imported together under one name, such as those of a
// foreign crawl. The zero value means no collection.
type Collection struct {
	Name    string `json:"name"`
	Source  string `json:"source,omitempty"`  // origin of the archives, for people
	Licence string `json:"licence,omitempty"` // terms of use, for people
}

var collectionName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

// ValidCollection reports whether a text can be the name of a collection.
func ValidCollection(name string) bool { return collectionName.MatchString(name) }

// CollectionForm describes the names of collections, for error messages.
const CollectionForm = "want 1 to 63 lower-case letters, digits, dots, hyphens or underscores"

// maxCollectionText limits source and licence, in bytes.
const maxCollectionText = 2000

// Check returns an error that names the wrong field. The zero value is valid.
func (c Collection) Check() error {
	switch {
	case c == Collection{}:
		return nil
	case !ValidCollection(c.Name):
		return fmt.Errorf("collection %.100q: %s", c.Name, CollectionForm)
	case len(c.Source) > maxCollectionText:
		return fmt.Errorf("source of collection %s: %d bytes, want at most %d", c.Name, len(c.Source), maxCollectionText)
	case len(c.Licence) > maxCollectionText:
		return fmt.Errorf("licence of collection %s: %d bytes, want at most %d", c.Name, len(c.Licence), maxCollectionText)
	}
	return nil
}
