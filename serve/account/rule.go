package account

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"sheaf/archive/naming"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
)

// ErrInvalidRules says that a rule cannot be added. The error names the wrong key.
var ErrInvalidRules = errors.New("access rule cannot be as given")

// Rule hides a part of the archive from all readers to whom it is not open.
type Rule struct {
	ID int64 `json:"id"` // set when it is added

	// The part that it hides. A record must fit everything that is set.
	Domain     string    `json:"domain,omitempty" doc:"a host and all below it; '*' for every host"`
	URLPrefix  string    `json:"url_prefix,omitempty" doc:"pages whose URL begins with this, by http and https"`
	Collection string    `json:"collection,omitempty" doc:"what was imported under this name"`
	From       time.Time `json:"from,omitzero"` // fetched at this time or later
	To         time.Time `json:"to,omitzero"`   // fetched before this time

	// The readers to whom it is open. Any of the conditions is enough.
	Accounts  []string       `json:"accounts,omitempty"`
	Terms     string         `json:"terms,omitempty" doc:"open to the accounts that have accepted these terms: see sheaf account set"`
	Addresses []netip.Prefix `json:"addresses,omitempty"` // of clients
	Until     time.Time      `json:"until,omitzero"`      // to everybody, from this time on
	// A segment becomes open to everybody Days days after its publication, at the next midnight,
	// UTC. 0 means never.
	Days int `json:"days,omitempty" doc:"open to everybody so many days after publication, until midnight, UTC"`

	Reason  string    `json:"reason" doc:"why (required)"`
	By      string    `json:"by,omitempty" doc:"who decides"`
	Created time.Time `json:"created,omitzero"` // set when it is added
}

const (
	maxDays   = 36_500
	maxNames  = 1000 // accounts or addresses of one rule
	maxText   = 2000 // bytes of a prefix or a reason
	dayLength = 24 * time.Hour
)

// check returns an ErrInvalidRules that names the key that is wrong, and its value.
func (r *Rule) check() error {
	bad := func(key string, value any, want string) error {
		return fmt.Errorf("%w: %s: %.100q: %s", ErrInvalidRules, key, fmt.Sprint(value), want)
	}
	switch {
	case r.Domain == "" && r.URLPrefix == "" && r.Collection == "":
		return fmt.Errorf("%w: it names nothing; give a domain (* for every host), url_prefix or collection", ErrInvalidRules)
	case r.Domain != "" && r.Domain != "*" && !IsDomain(r.Domain):
		return bad("domain", r.Domain, "want a lower-case name such as jp or waseda.ac.jp, or * for every host")
	case r.Domain != "" && r.URLPrefix != "":
		return bad("url_prefix", r.URLPrefix, "it names the host itself; leave the domain out")
	case r.Collection != "" && !wire.ValidCollection(r.Collection):
		return bad("collection", r.Collection, wire.CollectionForm)
	case !r.From.IsZero() && !r.To.IsZero() && !r.From.Before(r.To):
		return bad("to", r.To.Format(time.RFC3339), "want a time after from, "+r.From.Format(time.RFC3339))
	case r.Days < 0 || r.Days > maxDays:
		return bad("days", r.Days, fmt.Sprintf("want 1 to %d", maxDays))
	case len(r.Accounts) > maxNames || len(r.Addresses) > maxNames:
		return fmt.Errorf("%w: accounts or addresses: at most %d", ErrInvalidRules, maxNames)
	case r.Terms != "" && !IsName(r.Terms):
		return bad("terms", r.Terms, "want the name of terms that accounts have accepted")
	case len(r.Accounts) == 0 && r.Terms == "" && len(r.Addresses) == 0 && r.Until.IsZero() && r.Days == 0:
		return fmt.Errorf("%w: it is open to nobody; give accounts, terms, addresses, until or days, or take down what nobody is to see", ErrInvalidRules)
	case r.Reason == "" || len(r.Reason) > maxText:
		return bad("reason", r.Reason, "say why in up to 2000 bytes")
	}
	if given := r.URLPrefix; r.checkPrefix() != nil {
		return bad("url_prefix", given, "want the beginning of a URL with the whole host and a path, such as http://www.example.jp/private/")
	}
	for _, a := range r.Accounts {
		if !IsName(a) {
			return bad("accounts", a, "want an account's name")
		}
	}
	for i, p := range r.Addresses {
		if !p.IsValid() {
			return bad("addresses", p, "want an address or network, such as 192.0.2.0/24")
		}
		r.Addresses[i] = p.Masked()
	}
	return nil
}

// checkPrefix brings the prefix into its normal form. It returns an error unless the prefix names
// pages of one host, in the form of archived URLs.
func (r *Rule) checkPrefix() error {
	if r.URLPrefix == "" {
		return nil
	}
	p, err := weburl.ParsePrefix(r.URLPrefix)
	if name, bad := naming.HostFromPath(naming.HostPath(p.Host())); err == nil && (bad != nil || name != p.Host() || len(r.URLPrefix) > maxText) {
		err = fmt.Errorf("its host cannot be in the archive, or it is longer than %d bytes", maxText)
	}
	r.URLPrefix = p.String()
	return err
}

// openTo reports whether the rule is open to a reader by account, terms or address, at any time.
func (r *Rule) openTo(a *Account) bool {
	return slices.Contains(r.Accounts, a.Name) || r.Terms != "" && r.Terms == a.Terms.Name ||
		slices.ContainsFunc(r.Addresses, func(p netip.Prefix) bool { return p.Contains(a.Address()) })
}

// since returns the time after which a segment must have been published for the rule to hide it.
// The time changes at midnight UTC only, so what is computed from it can be kept for the day.
func (r *Rule) since(now time.Time) time.Time {
	if r.Days == 0 {
		return time.Time{}
	}
	return now.UTC().Truncate(dayLength).Add(-time.Duration(r.Days) * dayLength)
}

// place returns the place in the tree at and below which the rule's hosts lie. If exact is set, the
// rule may name only the host at that place.
func (r *Rule) place() (place string, exact bool) {
	switch {
	case r.URLPrefix != "":
		return naming.HostPath(weburl.PrefixOf(r.URLPrefix).Host()), true
	case r.Domain == "" || r.Domain == "*":
		return "", false
	}
	return naming.HostPath(r.Domain), false
}

// RuleList answers GET /v1/admin/access.
type RuleList struct {
	Rules []Rule `json:"rules"`
}

// Names says what the rule names, as words for operators.
func (r *Rule) Names() string {
	var words []string
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	switch {
	case r.URLPrefix != "":
		add("%s", r.URLPrefix)
	case r.Domain == "*" || r.Domain == "":
		add("every host")
	default:
		add("%s", r.Domain)
	}
	if r.Collection != "" {
		add("collection %s", r.Collection)
	}
	if !r.From.IsZero() {
		add("fetched from %s", r.From.UTC().Format(time.RFC3339))
	}
	if !r.To.IsZero() {
		add("fetched before %s", r.To.UTC().Format(time.RFC3339))
	}
	return strings.Join(words, ", ")
}

// OpenTo says to whom the rule is open, as words for operators.
func (r *Rule) OpenTo() string {
	var words []string
	if len(r.Accounts) > 0 {
		words = append(words, "accounts "+strings.Join(r.Accounts, " "))
	}
	if r.Terms != "" {
		words = append(words, "accounts with the terms "+r.Terms)
	}
	for _, p := range r.Addresses {
		words = append(words, p.String())
	}
	if !r.Until.IsZero() {
		words = append(words, "all from "+r.Until.UTC().Format(time.RFC3339))
	}
	if r.Days > 0 {
		words = append(words, fmt.Sprintf("all %d days after publication", r.Days))
	}
	return strings.Join(words, ", ")
}

// ParseTime parses a time as operators give it: a day, which begins at midnight UTC, or a time in
// RFC 3339. An empty text is the zero time.
func ParseTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%.100q is no time; write 2027-04-01 or 2027-04-01T09:00:00+09:00", text)
}

// ParseNetwork parses a network, such as 192.0.2.0/24, or an address, which is a network of one.
func ParseNetwork(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%.100q is no address or network; write 192.0.2.7 or 192.0.2.0/24", text)
	}
	return p.Masked(), nil
}
