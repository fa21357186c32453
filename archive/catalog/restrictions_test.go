package catalog_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"sheaf/archive/catalog"
	"sheaf/internal/testkit"
)

// Restrictions are kept through merges, and for every process: what was said last of each, once,
// and what ended as ended. The change feed does not tell of them, and fsck knows them.
func TestRestrictions(t *testing.T) {
	st := newStore(t)
	c := openWith(t, st, catalog.Options{Fanout: 2})
	rule := func(name, value string) catalog.Restriction {
		return catalog.Restriction{Kind: "access rule", Name: name, Value: json.RawMessage(value)}
	}
	restrict := func(all ...catalog.Restriction) {
		t.Helper()
		testkit.Must(t, c.Restrict(t.Context(), all...))
	}
	publish(t, c, publication("b1", putSegment(t, st, "good.jp", "b1")))
	restrict(rule("1", `{"domain":"a.jp"}`), rule("2", `{"domain":"*"}`))
	version := pin(t, c).Version()
	restrict(rule("1", `{"domain":"a.jp"}`), rule("9", "")) // known, and one that never was
	if got := pin(t, c).Version(); got != version {
		t.Errorf("what was known made version %d of %d", got, version)
	}
	restrict(rule("3", `"a & b" `))
	version = pin(t, c).Version()
	restrict(rule("3", `"a & b" `)) // however its JSON is written
	if got := pin(t, c).Version(); got != version {
		t.Errorf("what was known made version %d of %d", got, version)
	}
	restrict(rule("2", ""), rule("3", ""))
	publish(t, c, publication("b2", putSegment(t, st, "good.jp", "b2")))
	restrict(rule("1", `{"domain":"b.jp"}`))
	testkit.Must(t, c.Merge(t.Context()))
	for name, of := range map[string]*catalog.Catalog{"here": c, "elsewhere": open(t, st)} {
		list, err := catalog.Restrictions(t.Context(), pin(t, of))
		testkit.Must(t, err)
		list = slices.DeleteFunc(list, func(r catalog.Restriction) bool { return r.Name == "3" && r.Ended() })
		if len(list) != 2 || list[0].Name != "2" || !list[0].Ended() || list[1].Name != "1" || string(list[1].Value) != `{"domain":"b.jp"}` ||
			list[0].Seq >= list[1].Seq || !list[1].At.Equal(noon) {
			t.Errorf("%s: %+v", name, list)
		}
	}
	changes, last, err := pin(t, c).Changes(t.Context(), 0, "", 100)
	if testkit.Must(t, err); len(changes) != 2 || last != pin(t, c).Last() {
		t.Errorf("the feed tells %+v, up to %d", changes, last)
	}
	wantClean(t, st)
}

// What is taken down or shown again is altered at a time of its own, in whole seconds: after the
// take-down and after whatever was altered before, also where the clock stands still.
func TestAlterations(t *testing.T) {
	st := newStore(t)
	c := open(t, st)
	publish(t, c, publication("b1", putSegment(t, st, "good.jp", "b1"), putSegment(t, st, "bad.jp", "b1")))
	bad, page := catalog.Tombstone{Host: "bad.jp"}, catalog.Tombstone{Host: "good.jp", URLPrefix: "http://good.jp/a"}
	for _, do := range []func() (catalog.Version, error){
		func() (catalog.Version, error) { return c.Remove(t.Context(), bad, page) },
		func() (catalog.Version, error) { return c.Restore(t.Context(), bad) },
		func() (catalog.Version, error) {
			return c.Tell(t.Context(), catalog.Tombstone{Host: "good.jp", Edition: "20261121"})
		},
		func() (catalog.Version, error) { return c.Remove(t.Context(), bad) },
	} {
		_, err := do()
		testkit.Must(t, err)
	}
	var got []time.Duration
	for _, a := range catalog.Alterations(pin(t, c), "") {
		got = append(got, a.At.Sub(noon))
	}
	const s = time.Second
	if want := []time.Duration{s, s, 2 * s, 3 * s}; len(got) != len(want) || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] || got[3] != want[3] {
		t.Errorf("altered after %v, want %v", got, want)
	}
	if of := catalog.Alterations(pin(t, c), catalog.Key("good.jp")); len(of) != 1 || of[0].URLPrefix != page.URLPrefix {
		t.Errorf("of good.jp: %+v", of)
	}
}
