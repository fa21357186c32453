package records

import (
	"errors"
	"fmt"
	"strconv"

	"sheaf/serve/library"
)

// order parses sort, and checks that the query can be answered in that order.
func (p *parser) order() {
	q := p.query
	p.get("sort", func(text string) error {
		switch text {
		case "default":
		case "reverse":
			q.Search.Reverse = true
			return q.oneSite()
		case "closest":
			if q.closest.IsZero() {
				return errors.New("needs closest, a time")
			}
		default:
			return errors.New("want default, reverse or closest")
		}
		return nil
	})
	p.refuse("closest", !q.oneURL(), "works for one URL only")
	p.refuse("closest", q.latest || q.Search.Reverse || len(q.collapses) > 0, "cannot be combined with latest, collapse and sort=reverse")
	p.refuse("closest", q.readsRecords(), costly)
	p.refuse("latest", q.latest && q.Search.Reverse, "cannot be combined with sort=reverse")
}

// oneURL reports whether the query is for one URL.
func (q *Query) oneURL() bool {
	return len(q.Search.Targets) == 1 && q.Search.Targets[0].Match == library.MatchExact
}

// oneSite returns an error unless the query is for one URL, prefix or host.
func (q *Query) oneSite() error {
	if len(q.Search.Targets) == 1 {
		switch q.Search.Targets[0].Match {
		case library.MatchExact, library.MatchPrefix, library.MatchHost:
			return nil
		}
	}
	return errors.New("works for one URL, prefix or host only")
}

func (p *parser) limit() {
	q := p.query
	fast := false
	p.flag("fastLatest", &fast)
	p.get("limit", func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n == 0 || n > MaxLimit || n < -MaxLimit {
			return fmt.Errorf("want a number from 1 to %d, or a negative one for the last lines", MaxLimit)
		}
		if q.Limit = max(n, -n); n < 0 {
			return q.lastLines()
		}
		return nil
	})
	if fast && !q.last {
		p.get("fastLatest", func(string) error { return q.lastLines() })
		q.Limit = max(q.Limit, 1)
	}
	set(p, "offset", &q.skip, number(0, maxSkip, fmt.Sprintf("want a number from 0 to %d; use a cursor to go further", maxSkip)))
}

// costly refuses queries that look at all records of a site before they answer, if each of the
// records would have to be read: such an answer has no parts, so nothing bounds its cost.
const costly = "cannot be combined with conditions on modified, for which each record is read"

// maxSkip is the limit for offset, since skipped records must be searched, too.
const maxSkip = 10_000_000

// lastLines makes the query return the last lines, by searching in reverse.
func (q *Query) lastLines() error {
	if q.Search.Reverse || q.latest || !q.closest.IsZero() || len(q.collapses) > 0 {
		return errors.New("the last lines cannot be combined with sort, latest, collapse and closest")
	}
	if q.readsRecords() {
		return errors.New(costly)
	}
	q.last, q.Search.Reverse = true, true
	return q.oneSite()
}
