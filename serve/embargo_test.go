package serve_test

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/naming"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/reading"
	"sheaf/serve/servetest"
)

// Whoever follows the feed has what the tree shows, whatever rules hide, and also after embargoes
// have ended: by the feed's events alone, but for another rule, which makes followers begin anew.
func TestFeedOfEmbargoes(t *testing.T) {
	t.Parallel()
	now := &passing{}
	s := history(t, now, 0)
	rules := account.NewRules(s.DB, slog.New(slog.DiscardHandler))
	rules.Now = now.now
	var err error
	s.Library, err = reading.New(reading.Options{Catalog: s.Catalog, Store: s.Store, Rules: rules})
	testkit.Must(t, err)
	random := rand.New(rand.NewPCG(3, 9))
	hosts := []string{"www.waseda.ac.jp", "www.keio.ac.jp", "www.example.jp", "example.jp"}
	readers := []*copyOf{
		{account: everyone, page: 3}, {account: &account.Account{Name: "alice", Domains: []string{"*"}}, page: 100},
		{account: &account.Account{Name: "bob", Domains: []string{"example.jp"}}, page: 1}, {account: everyone, want: api.Selection{Domains: []string{"ac.jp"}}, page: 2},
	}
	anew, freed := 0, 0
	follow := func(c *copyOf) {
		_, err := s.Library.Changes.Wait(t.Context(), c.account, c.want, c.at, c.page, 0, nil)
		if c.files == nil || errors.Is(err, library.ErrOtherFeed) {
			c.files, c.at = map[string]string{}, api.Cursor{}
			anew++
		}
		before := len(c.events)
		c.follow(t, s.Library)
		for _, e := range c.events[before:] {
			if e.Op == api.Reseal {
				freed++
			}
		}
	}
	var made []account.Rule
	start := now.now().UTC().Truncate(time.Second)
	for step := range testkit.Size(20, 48) {
		now.ahead += 12 * time.Hour
		at := start.Add(now.ahead)
		switch kind := random.IntN(8); {
		case kind < 5:
			of := map[string][]*archive.Record{}
			for _, h := range random.Perm(len(hosts))[:1+random.IntN(3)] {
				url := "http://" + hosts[h] + "/"
				of[hosts[h]] = []*archive.Record{servetest.Page(url, fmt.Sprint(step), at), servetest.Page(url+"secret/", "s", at.Add(time.Second))}
			}
			s.Publish(at.Format("20060102"), of)
		case kind == 5 && len(made) > 2:
			testkit.Must(t, rules.Remove(t.Context(), made[0].ID))
			made = made[1:]
		default:
			r := account.Rule{Domain: "ac.jp", Days: 1 + random.IntN(3), Accounts: []string{"alice"}, Reason: "contract"}
			switch random.IntN(4) {
			case 0:
				r = account.Rule{Domain: "example.jp", Until: at.Add(time.Duration(random.IntN(72)) * time.Hour), Reason: "embargo"}
			case 1:
				r = account.Rule{URLPrefix: "http://www.keio.ac.jp/secret/", Until: at.Add(time.Duration(random.IntN(72)) * time.Hour), Reason: "embargo"}
			case 2:
				r = account.Rule{Domain: "*", From: at.Add(-24 * time.Hour), To: at.Add(24 * time.Hour), Days: 2, Reason: "elections"}
			}
			r, err := rules.Add(t.Context(), r)
			testkit.Must(t, err)
			made = append(made, r)
		}
		testkit.Must(t, rules.TellNow(t.Context(), s.Catalog))
		for _, c := range readers {
			if random.IntN(3) == 0 {
				follow(c)
			}
		}
	}
	now.ahead += 10 * 24 * time.Hour // all embargoes end
	for _, c := range readers {
		follow(c) // up to the last rule, or it would begin anew for that
	}
	began := anew
	testkit.Must(t, rules.TellNow(t.Context(), s.Catalog))
	for _, c := range readers {
		follow(c)
		there := map[string]string{}
		for _, h := range hosts {
			if len(c.want.Domains) == 0 || slices.Contains([]string{"www.waseda.ac.jp", "www.keio.ac.jp"}, h) {
				maps.Copy(there, editionFiles(t, s.Library, c.account, "/"+naming.HostPath(h)+"/"))
			}
		}
		if !maps.Equal(there, c.files) {
			t.Errorf("%s %+v: has %v\nthere is %v", c.account.Name, c.want, slices.Sorted(maps.Keys(c.files)), slices.Sorted(maps.Keys(there)))
		}
		if len(there) == 0 {
			t.Errorf("%s %+v sees nothing", c.account.Name, c.want)
		}
	}
	if anew != began || freed == 0 || began <= len(readers) {
		t.Errorf("followers began %d times anew, %d because embargoes had ended; the feed told %d times that files had changed", began, anew-began, freed)
	}
}

// If the feed has told of the end of embargoes by a clock that was ahead, it tells again when they
// end: whoever followed it meanwhile has nothing of what was hidden again.
func TestFeedAfterAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	now := &passing{}
	s := history(t, now, 0)
	rules := account.NewRules(s.DB, slog.New(slog.DiscardHandler))
	rules.Now = now.now
	var err error
	s.Library, err = reading.New(reading.Options{Catalog: s.Catalog, Store: s.Store, Rules: rules})
	testkit.Must(t, err)
	start := now.now().UTC().Truncate(time.Second)
	for _, r := range []account.Rule{
		{Domain: "example.jp", Until: start.AddDate(0, 0, 5), Reason: "embargo"}, {Domain: "waseda.ac.jp", Days: 5, Reason: "contract"},
	} {
		_, err := rules.Add(t.Context(), r)
		testkit.Must(t, err)
	}
	page := func(host string) []*archive.Record {
		return []*archive.Record{servetest.Page("http://"+host+"/", host, start)}
	}
	s.Publish(start.Format("20060102"), map[string][]*archive.Record{"example.jp": page("example.jp"), "waseda.ac.jp": page("waseda.ac.jp"), "keio.ac.jp": page("keio.ac.jp")})
	tell := func(days int) {
		t.Helper()
		now.ahead = time.Duration(days) * 24 * time.Hour
		testkit.Must(t, rules.TellNow(t.Context(), s.Catalog))
	}
	tell(365)
	tell(1)
	c := &copyOf{account: everyone, page: 100, files: map[string]string{}}
	c.follow(t, s.Library)
	if len(c.files) == 0 || len(editionFiles(t, s.Library, everyone, "/jp/example/")) > 0 {
		t.Errorf("a day later: has %v", c.files)
	}
	tell(9)
	c.follow(t, s.Library)
	for _, host := range []string{"example.jp", "waseda.ac.jp", "keio.ac.jp"} {
		there := editionFiles(t, s.Library, everyone, "/"+naming.HostPath(host)+"/")
		for path := range there {
			if c.files[path] != there[path] {
				t.Errorf("after the embargoes there is %s, and a follower of the feed does not have it", path)
			}
		}
		if len(there) == 0 {
			t.Errorf("nothing of %s is there", host)
		}
	}
}
