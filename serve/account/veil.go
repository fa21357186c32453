package account

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/internal/weburl"
)

// Veil is what rules hide from one reader at one time. It is a catalog.Veil. A nil Veil hides
// nothing. It does not change.
type Veil struct {
	rules []applied
	mark  string
}

// applied is a rule that is not open to the reader.
type applied struct {
	Rule
	pages weburl.Prefix // those of the rule's URL prefix, if it has one
	place string        // see Rule.place; exact too
	exact bool          // only the host at the place
	since time.Time     // the rule hides only segments published after this time; zero: all
	ended bool          // the rule's embargo has ended: it hides nothing
}

// newVeil returns what rules hide from a reader at a time; nil: nothing.
func newVeil(rules []storedRules, a *Account, scope Scope, now time.Time) *Veil {
	var v Veil
	for _, r := range rules {
		place, exact := r.place()
		if r.openTo(a) || len(scope.Under(place)) == 0 {
			continue
		}
		v.mark += fmt.Sprintf(" %d.%d", r.ID, r.Epoch)
		v.rules = append(v.rules, applied{
			Rule: r.Rule, pages: weburl.PrefixOf(r.URLPrefix), place: place, exact: exact,
			since: r.since(now), ended: !r.Until.IsZero() && !now.Before(r.Until),
		})
	}
	if v.mark == "" {
		return nil
	}
	return &v
}

// Mark names the rules. The end of an embargo does not change the mark: what is visible under a
// mark stays visible under it.
func (v *Veil) Mark() string {
	if v == nil {
		return ""
	}
	return "rules" + v.mark
}

// Within reports whether all rules of the veil are among those of a Mark. Then the veil hides no
// more than the veil of that mark did.
func (v *Veil) Within(mark string) bool {
	rules := strings.Fields(mark)
	for _, r := range strings.Fields(v.Mark()) {
		if !slices.Contains(rules, r) {
			return false
		}
	}
	return true
}

// State returns a cache key of all that the veil hides.
func (v *Veil) State() string {
	if v == nil {
		return ""
	}
	return v.Mark() + stateOf(v.rules)
}

func stateOf(rules []applied) string {
	var b strings.Builder
	for _, r := range rules {
		if !r.ended {
			fmt.Fprintf(&b, " %d", r.ID)
			if r.Days > 0 {
				fmt.Fprintf(&b, ">%d", r.since.Unix())
			}
		}
	}
	return b.String()
}

// Parts returns a cache key of the rules that hide only parts of a host: by URL, by collection or
// by when records were fetched.
func (v *Veil) Parts() string {
	if v == nil {
		return ""
	}
	return stateOf(slices.DeleteFunc(slices.Clone(v.rules), func(r applied) bool {
		return r.URLPrefix == "" && r.Collection == "" && r.From.IsZero() && r.To.IsZero()
	}))
}

// Since returns the times at which the rules were added that may hide hosts at, below or above a
// place.
func (v *Veil) Since(place string) (times []time.Time) {
	_ = v.any(func(r *applied) bool {
		if !r.ended && (Within(r.place, place) || Within(place, r.place)) {
			times = append(times, r.Created)
		}
		return false
	})
	return times
}

// OfHost returns the veil of the rules that may hide something of a host; nil if no rule may.
func (v *Veil) OfHost(name string) *Veil {
	if v == nil {
		return nil
	}
	place := naming.HostPath(name)
	rules := slices.DeleteFunc(slices.Clone(v.rules), func(r applied) bool { return r.ended || !r.holds(place) })
	if len(rules) == 0 {
		return nil
	}
	return &Veil{rules, v.mark}
}

// Touches implements catalog.Veil.
func (v *Veil) Touches(key string) bool {
	place := strings.ReplaceAll(key, ",", "/")
	return v.any(func(r *applied) bool { return r.URLPrefix == "" && !r.ended && r.holds(place) })
}

// Hides implements catalog.Veil. It returns false for an entry if only some of its records are
// hidden.
func (v *Veil) Hides(l catalog.SegmentEntry) bool {
	return v.any(func(r *applied) bool {
		return r.URLPrefix == "" && r.names(&l) && (r.From.IsZero() || !l.First.Before(r.From)) && (r.To.IsZero() || l.Last.Before(r.To))
	})
}

// MayHide reports whether some records of an entry may be hidden.
func (v *Veil) MayHide(l catalog.SegmentEntry) bool {
	return v.any(func(r *applied) bool {
		return r.names(&l) && (r.From.IsZero() || !l.Last.Before(r.From)) && (r.To.IsZero() || l.First.Before(r.To))
	})
}

// HidesRecord reports whether a record of an entry is hidden. at is when the record was fetched. If
// at is zero, the time is unknown, and a rule hides the record whatever its From and To.
func (v *Veil) HidesRecord(l catalog.SegmentEntry, url string, at time.Time) bool {
	return v.any(func(r *applied) bool {
		return r.names(&l) && (r.URLPrefix == "" || r.pages.Holds(url)) &&
			(at.IsZero() || (r.From.IsZero() || !at.Before(r.From)) && (r.To.IsZero() || at.Before(r.To)))
	})
}

// HidesHost reports whether the rules now hide everything of a host, also what is yet to come.
func (v *Veil) HidesHost(host string) bool {
	place := naming.HostPath(host)
	return v.any(func(r *applied) bool {
		return r.URLPrefix == "" && r.Collection == "" && r.From.IsZero() && r.To.IsZero() && r.Days == 0 && !r.ended && r.holds(place)
	})
}

// HidesSome reports whether a rule about URLs may hide some of a host's URLs with a prefix.
func (v *Veil) HidesSome(host, prefix string) bool {
	place, pages := naming.HostPath(host), weburl.PrefixOf(prefix)
	return v.any(func(r *applied) bool {
		return r.URLPrefix != "" && !r.ended && r.holds(place) && r.pages.Meets(pages)
	})
}

// HidesPages reports whether a rule about URLs hides all of a host's URLs with a prefix.
func (v *Veil) HidesPages(host, prefix string) bool {
	place, pages := naming.HostPath(host), weburl.PrefixOf(prefix)
	return v.any(func(r *applied) bool {
		return r.URLPrefix != "" && r.Collection == "" && r.From.IsZero() && r.To.IsZero() && r.Days == 0 && !r.ended && r.holds(place) && r.pages.Covers(pages)
	})
}

func (v *Veil) any(f func(*applied) bool) bool {
	if v != nil {
		for i := range v.rules {
			if f(&v.rules[i]) {
				return true
			}
		}
	}
	return false
}

// holds reports whether the rule may name something of the host at a place.
func (r *applied) holds(place string) bool {
	return place == r.place || !r.exact && Within(place, r.place)
}

// names reports whether the rule names the entry's segment by host, collection and publication. It
// does not look at URLs and times of visits.
func (r *applied) names(l *catalog.SegmentEntry) bool {
	return !r.ended && r.holds(naming.HostPath(l.Host)) && (r.Collection == "" || r.Collection == l.Collection) &&
		(r.Days == 0 || l.Published.After(r.since))
}
