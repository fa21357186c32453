package crash

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"sheaf/archive/catalog"
	"sheaf/ingest/inbox"
	"sheaf/ingest/receive"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// row is one write of the table: the service is killed before it, and in another trial after it.
type row struct {
	write    string
	nth      int    // count of passes since then
	since    string // a write that must have come before, for writes that also come without a batch
	scenario scenario
	// before and after are the batch's state in the ledger of the killed service.
	before, after wire.State
}

const (
	none   = wire.State("")    // there is no row
	anyhow = wire.State("any") // the batch goes on in the meantime
)

// table names every durable write of receive, split, publish and collection. The test fails if
// boundaries returns others.
var table = []row{
	{"receive/create", 1, "", sent, none, none},
	{"receive/data", 1, "", sent, none, none},
	{"receive/offset", 1, "", sent, none, none},
	{"receive/forget", 1, "", sent, anyhow, anyhow},
	{"receive/data", 1, "", cut, none, none},   // what a broken connection has brought
	{"receive/offset", 1, "", cut, none, none}, // and that it counts
	{"receive/data", 2, "", cut, none, none},   // the rest
	{"receive/offset", 2, "", cut, none, none},
	{"receive/create", 1, "", dropped, none, none},
	{"receive/data", 1, "", dropped, none, none},
	{"receive/offset", 1, "", dropped, none, none},
	{"receive/forget", 1, "", dropped, anyhow, anyhow},
	{"receive/offset", 1, "", appended, none, none}, // STOR
	{"receive/data", 2, "", appended, none, none},   // APPE
	{"receive/offset", 2, "", appended, none, none},

	{"ingest/place", 1, "", sent, none, none},
	{"ingest/enter", 1, "", woken, none, wire.StateReceived},
	{"ingest/place", 1, "", dropped, none, none},
	{"ingest/enter", 1, "", dropped, none, wire.StateReceived},
	{"ingest/claim", 1, "ingest/enter", woken, anyhow, wire.StatePreSplit}, // a claim from before the batch came may have met it
	{"ingest/stage", 1, "", sent, wire.StatePreSplit, wire.StatePreSplit},
	{"ingest/staged", 1, "", sent, wire.StatePreSplit, wire.StatePreSplit},
	{"ingest/stage", 2, "", sent, wire.StatePreSplit, wire.StatePreSplit},    // the second host
	{"ingest/staged", 1, "", packed, wire.StatePreSplit, wire.StatePreSplit}, // the hosts' places in it
	{"ingest/stage", 1, "", packed, wire.StatePreSplit, wire.StatePreSplit},  // a pack of both
	{"ingest/split", 1, "", packed, wire.StatePreSplit, wire.StatePostSplit},
	{"ingest/split", 1, "", sent, wire.StatePreSplit, wire.StatePostSplit},
	{"ingest/manifest", 1, "", sent, wire.StatePostSplit, wire.StatePostSplit},
	{"ingest/publish", 1, "", sent, wire.StatePostSplit, wire.StatePostSplit},
	{"catalog/publish-run", 1, "", sent, wire.StatePostSplit, wire.StatePostSplit},
	{"catalog/publish-version", 1, "", sent, wire.StatePostSplit, wire.StatePostSplit},
	{"ingest/published", 1, "", sent, wire.StatePostSplit, wire.StatePublished},
	{"ingest/collect", 1, "", sent, wire.StatePublished, wire.StatePublished},
	{"ingest/collected", 1, "", sent, wire.StatePublished, wire.StatePublished},

	{"ingest/place", 1, "", bare, none, none},
	{"ingest/enter", 1, "", bare, none, wire.StateReceived},
	{"receive/forget", 1, "", bare, anyhow, anyhow},
	{"ingest/keep", 1, "", aside, none, none}, // its row has an ID of its own
	{"ingest/place", 1, "", aside, none, none},
	{"ingest/move-aside", 1, "", aside, none, none},
	{"receive/forget", 1, "", aside, none, none},

	{"ingest/quarantine", 1, "", damaged, wire.StatePreSplit, wire.StateQuarantined},
	{"ingest/move-aside", 1, "", damaged, wire.StateQuarantined, wire.StateQuarantined},
	{"ingest/failure", 1, "", noStore, wire.StatePreSplit, wire.StatePreSplit},
	{"ingest/restore", 1, "", released, wire.StateQuarantined, wire.StateQuarantined},
	{"ingest/release", 1, "", released, wire.StateQuarantined, wire.StateReceived},
	{"ingest/discard", 1, "", unwanted, wire.StateQuarantined, wire.StateQuarantined},
	{"ingest/erase", 1, "", unwanted, wire.StateQuarantined, wire.StateQuarantined},
	{"ingest/erased", 1, "", unwanted, wire.StateQuarantined, wire.StateQuarantined},

	{"catalog/merge-run", 1, "", kept, wire.StatePublished, wire.StatePublished},
	{"catalog/merge-version", 1, "", kept, wire.StatePublished, wire.StatePublished},
	{"catalog/remove-run", 1, "", kept, wire.StatePublished, wire.StatePublished},
	{"catalog/remove-version", 1, "", kept, wire.StatePublished, wire.StatePublished},
	{"catalog/restore-run", 1, "", kept, wire.StatePublished, wire.StatePublished},
	{"catalog/restore-version", 1, "", kept, wire.StatePublished, wire.StatePublished},
	{"catalog/restrict-run", 1, "", restricted, wire.StatePublished, wire.StatePublished},
	{"catalog/restrict-version", 1, "", restricted, wire.StatePublished, wire.StatePublished},
	{"catalog/condemn", 1, "", kept, wire.StatePublished, wire.StatePublished},
	{"catalog/erase-run", 1, "", kept, wire.StatePublished, wire.StatePublished},
	{"catalog/erase-version", 1, "", kept, wire.StatePublished, wire.StatePublished},
	{"catalog/collect", 1, "", kept, wire.StatePublished, wire.StatePublished},
	{"catalog/collect", 2, "", kept, wire.StatePublished, wire.StatePublished},
	{"catalog/collected", 1, "", kept, wire.StatePublished, wire.StatePublished},
	{"catalog/expire-run", 1, "", aged, wire.StatePublished, wire.StatePublished},
	{"catalog/expire-version", 1, "", aged, wire.StatePublished, wire.StatePublished},
	{"catalog/collect", 1, "", aged, wire.StatePublished, wire.StatePublished}, // an edition that has expired
}

// boundaries returns the durable writes of the service's rooms, such as "catalog/publish-run".
func boundaries() (names []string) {
	for room, writes := range map[string][]string{
		"receive": receive.Boundaries(),
		"ingest":  slices.Concat(inbox.Boundaries(), inbox.DecisionBoundaries()),
		"catalog": catalog.Boundaries(),
	} {
		for _, write := range writes {
			names = append(names, room+"/"+write)
		}
	}
	return names
}

// boundaryCase is a death at a row's write, before or after it, with accepted batches in the
// directory or in the store.
type boundaryCase struct {
	row
	when, accepted string
}

// boundaryCases returns all cases of the table, by scenario in the table's order.
func boundaryCases() (all [][]boundaryCase) {
	at := map[string]int{}
	for _, r := range table {
		if _, ok := at[r.scenario.name]; !ok {
			at[r.scenario.name] = len(all)
			all = append(all, nil)
		}
		of := &all[at[r.scenario.name]]
		for _, when := range []string{"before", "after"} {
			*of = append(*of, boundaryCase{r, when, "directory"})
			if strings.HasPrefix(r.write, "ingest/") {
				*of = append(*of, boundaryCase{r, when, "store"})
			}
		}
	}
	return all
}

// TestEveryBoundary kills the service before and after each durable write, starts it again, lets
// the robot go on, and checks the end. The writes of ingest are tried with accepted batches in the
// directory and in the store. The long form, which CI runs too, takes each of these cases. By
// default it is one of each scenario, and in a short test one of every third scenario, at random.
func TestEveryBoundary(t *testing.T) {
	t.Parallel()
	named := map[string]bool{}
	for _, r := range table {
		named[r.write] = true
	}
	for _, write := range boundaries() {
		if !named[write] {
			t.Errorf("the durable write %s is not in the table", write)
		}
		delete(named, write)
	}
	for write := range named {
		t.Errorf("the table has %s, which is no write of the service", write)
	}
	sheaf := testkit.Build(t, "sheaf/cmd/sheaf")
	seed := newInstallation(t, "").start(nil)
	waseda := seed.join("waseda")
	seed.add(waseda.Name, 2)
	seed.fetchList(waseda)
	seed.kill()
	for n, cases := range boundaryCases() {
		switch {
		case testkit.Full():
		case testing.Short() && n%3 > 0:
			continue
		default:
			cases = []boundaryCase{pick(t, cases)}
		}
		for _, c := range cases {
			t.Run(fmt.Sprintf("%s %s %d %s %s", c.when, c.write, c.nth, c.scenario.name, c.accepted), func(t *testing.T) {
				t.Parallel()
				s := &trial{installation: newInstallation(t, seed.data), robot: waseda, spool: newSpool(t), scenario: c.scenario}
				s.die = &death{Write: c.write, When: c.when, Nth: c.nth, Since: c.since}
				s.state = map[string]wire.State{"before": c.before, "after": c.after}[c.when]
				maps.Copy(s.settings, c.scenario.settings)
				s.settings["uploads.accepted"] = c.accepted
				c.scenario.act(s)
				c.scenario.end(s, sheaf)
			})
		}
	}
}
