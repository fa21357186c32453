package account

import (
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sheaf/archive/catalog"
	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// A rule that cannot be as given is refused with the key and the value.
func TestCheck(t *testing.T) {
	good := Rule{Domain: "example.jp", Days: 7, Reason: "contract"}
	for says, spoil := range map[string]func(*Rule){
		"names nothing":         func(r *Rule) { r.Domain = "" },
		`domain: "Example.JP"`:  func(r *Rule) { r.Domain = "Example.JP" },
		"leave the domain out":  func(r *Rule) { r.URLPrefix = "http://www.example.jp/" },
		`url_prefix: "http://w`: func(r *Rule) { r.Domain, r.URLPrefix = "", "http://www.example.jp" },
		`url_prefix: "ftp://`:   func(r *Rule) { r.Domain, r.URLPrefix = "", "ftp://www.example.jp/" },
		`collection: "A B"`:     func(r *Rule) { r.Collection = "A B" },
		"to: ":                  func(r *Rule) { r.From, r.To = noon, noon },
		`days: "-1"`:            func(r *Rule) { r.Days = -1 },
		"open to nobody":        func(r *Rule) { r.Days = 0 },
		"reason: ":              func(r *Rule) { r.Reason = "" },
		`accounts: "A"`:         func(r *Rule) { r.Accounts = []string{"A"} },
		"addresses: ":           func(r *Rule) { r.Addresses = []netip.Prefix{{}} },
	} {
		r := good
		spoil(&r)
		if err := r.check(); !errors.Is(err, ErrInvalidRules) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	testkit.Must(t, good.check())
}

// What a rule names is hidden from everybody but those to whom it is open.
func TestVeil(t *testing.T) {
	const page = "http://www.example.jp/private/a"
	entry := catalog.SegmentEntry{Host: "www.example.jp", First: noon, Last: noon.Add(time.Hour), Published: noon.Add(24 * time.Hour)}
	entry.Collection = "elections"
	alice := &Account{Name: "alice"}
	everything := Scope{""}
	for name, c := range map[string]struct {
		rule   Rule
		reader *Account
		at     time.Time
		entry  bool // is hidden whole
		record bool // page, fetched half an hour after noon, is hidden
	}{
		"domain":                    {Rule{Domain: "example.jp", Accounts: []string{"bob"}}, alice, noon, true, true},
		"another domain":            {Rule{Domain: "ample.jp", Accounts: []string{"bob"}}, alice, noon, false, false},
		"every host":                {Rule{Domain: "*", Accounts: []string{"bob"}}, alice, noon, true, true},
		"account":                   {Rule{Domain: "example.jp", Accounts: []string{"bob", "alice"}}, alice, noon, false, false},
		"terms accepted":            {Rule{Domain: "example.jp", Terms: "research"}, &Account{Name: "bob", Terms: Terms{Name: "research"}}, noon, false, false},
		"other terms":               {Rule{Domain: "example.jp", Terms: "research"}, &Account{Name: "bob", Terms: Terms{Name: "press"}}, noon, true, true},
		"no terms":                  {Rule{Domain: "example.jp", Terms: "research"}, alice, noon, true, true},
		"on site":                   {Rule{Domain: "example.jp", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}, alice.From("192.0.2.7:1"), noon, false, false},
		"elsewhere":                 {Rule{Domain: "example.jp", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}, alice.From("198.51.100.7:1"), noon, true, true},
		"address not known":         {Rule{Domain: "example.jp", Addresses: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}, alice, noon, true, true},
		"before the end":            {Rule{Domain: "example.jp", Until: noon}, alice, noon.Add(-1), true, true},
		"after the end":             {Rule{Domain: "example.jp", Until: noon}, alice, noon, false, false},
		"a week after publication":  {Rule{Domain: "example.jp", Days: 7}, alice, noon.Add(8 * 24 * time.Hour), true, true},
		"eight days after":          {Rule{Domain: "example.jp", Days: 7}, alice, noon.Add(9 * 24 * time.Hour), false, false},
		"prefix":                    {Rule{URLPrefix: "http://www.example.jp/private/", Accounts: []string{"bob"}}, alice, noon, false, true},
		"prefix by https":           {Rule{URLPrefix: "https://www.example.jp/private/", Accounts: []string{"bob"}}, alice, noon, false, true},
		"another prefix":            {Rule{URLPrefix: "http://www.example.jp/public/", Accounts: []string{"bob"}}, alice, noon, false, false},
		"collection":                {Rule{Collection: "elections", Accounts: []string{"bob"}}, alice, noon, true, true},
		"another collection":        {Rule{Collection: "other", Accounts: []string{"bob"}}, alice, noon, false, false},
		"time within":               {Rule{Domain: "*", From: noon.Add(time.Minute), To: noon.Add(45 * time.Minute), Accounts: []string{"bob"}}, alice, noon, false, true},
		"time before":               {Rule{Domain: "*", To: noon.Add(10 * time.Minute), Accounts: []string{"bob"}}, alice, noon, false, false},
		"time around":               {Rule{Domain: "*", From: noon, To: noon.Add(2 * time.Hour), Accounts: []string{"bob"}}, alice, noon, true, true},
		"open to some, then to all": {Rule{Domain: "example.jp", Accounts: []string{"bob"}, Until: noon}, alice, noon, false, false},
	} {
		v := newVeil([]storedRules{{Rule: c.rule}}, c.reader, everything, c.at)
		if got := v.Hides(entry); got != c.entry {
			t.Errorf("%s: the entry is hidden: %v", name, got)
		}
		if c.entry && !v.Touches(catalog.Key(entry.Host)) {
			t.Errorf("%s: lists are not looked at", name)
		}
		if got := v.HidesRecord(entry, page, noon.Add(30*time.Minute)); got != c.record {
			t.Errorf("%s: the record is hidden: %v", name, got)
		}
		if c.record && (!v.MayHide(entry) || v.OfHost(entry.Host) == nil) {
			t.Errorf("%s: records are not looked at", name)
		}
	}
}

// What is computed for a reader is kept under another key once an embargo has ended, and what was
// given out before stays valid; another rule changes both.
func TestNamesOfVeils(t *testing.T) {
	rules := []storedRules{{Rule: Rule{ID: 1, Domain: "example.jp", Until: noon}}}
	everything := Scope{""}
	before := newVeil(rules, new(Account), everything, noon.Add(-1))
	after := newVeil(rules, new(Account), everything, noon)
	more := newVeil(append(rules, storedRules{Rule: Rule{ID: 2, Domain: "*", Days: 1}}), new(Account), everything, noon)
	if before.State() == after.State() || before.Mark() != after.Mark() || !after.Within(before.Mark()) {
		t.Errorf("%q, %q, %q, %q", before.State(), after.State(), before.Mark(), after.Mark())
	}
	if more.Within(before.Mark()) || !before.Within(more.Mark()) {
		t.Errorf("%q and %q", more.Mark(), before.Mark())
	}
}

// Rules are kept in the database and hold until they are removed.
func TestRules(t *testing.T) {
	database, err := db.Open(t.Context(), dbtest.Source(t))
	testkit.Must(t, err)
	t.Cleanup(func() { database.Close() })
	log := slog.New(slog.DiscardHandler)
	x, other := NewRules(database, log), NewRules(database, log)
	made, err := x.Add(t.Context(), Rule{Domain: "example.jp", Until: noon, Reason: "contract", By: "op"})
	testkit.Must(t, err)
	for name, of := range map[string]*Rules{"here": x, "elsewhere": other} {
		list, err := of.List(t.Context())
		testkit.Must(t, err)
		if len(list) != 1 || list[0].ID != made.ID || list[0].Domain != "example.jp" || !list[0].Until.Equal(noon) || list[0].By != "op" {
			t.Errorf("%s: %+v", name, list)
		}
	}
	testkit.Must(t, x.Remove(t.Context(), made.ID))
	if err := other.Remove(t.Context(), made.ID); !errors.Is(err, ErrNoRule) {
		t.Errorf("removed twice: %v", err)
	}
	v, err := x.Veil(t.Context(), new(Account), Scope{""})
	if testkit.Must(t, err); v != nil {
		t.Errorf("a removed rule hides: %+v", v)
	}
}
