package tree

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// The files in which a day's directory tells what the day changed in a domain: see
// library.DayChange. A file is written when a reader asks for it, about what that reader sees.
const (
	fileChanges      = "changes.jsonl.gz"
	fileChangesTable = "changes.parquet"
)

// ChangeTable takes what a day changed, line by line. Close ends the table.
type ChangeTable interface {
	Add(library.DayChange) error
	Close() error
}

// changes returns a file that tells what a day changed of a domain.
func (f *finder) changes(ctx context.Context, of source, name string) (*library.Entry, error) {
	if _, err := f.volumesDirectory(ctx, of); err != nil {
		return nil, err
	}
	if name == fileChangesTable && f.tree.opt.ChangeTable == nil {
		return nil, library.ErrNotFound
	}
	d, err := f.changesDocument(ctx, of, name)
	if err != nil {
		return nil, err
	}
	return f.longText(ctx, d, func(f *finder, ctx context.Context, w io.Writer) error {
		if name == fileChangesTable {
			to := f.tree.opt.ChangeTable(w)
			if err := f.eachChange(ctx, of, to.Add); err != nil {
				return err
			}
			return to.Close()
		}
		return zipped(w, func(w io.Writer) error {
			out := json.NewEncoder(w)
			out.SetEscapeHTML(false)
			return f.eachChange(ctx, of, func(c library.DayChange) error { return out.Encode(c) })
		})
	})
}

func (f *finder) changesDocument(ctx context.Context, of source, name string) (library.Document, error) {
	v := f.view
	rules, err := v.Archive.Rules.Mark(ctx)
	d := library.Document{Name: name, Type: "application/gzip", Modified: v.Modified(of.published(), of.place, library.Any)}
	if name == fileChangesTable {
		d.Type = "application/vnd.apache.parquet"
	}
	last := of.editions[len(of.editions)-1]
	d.Key = fmt.Sprintf("changes %q %q %q %d %q %s", of.name, of.place, last.Name, v.Snap.Withdrawals(), v.Scope.Under(of.place), rules+" "+v.Veil.State())
	return d, err
}

// madeChanges returns the files of changes that were written before. Directories list no others,
// since writing them takes long.
func (f *finder) madeChanges(ctx context.Context, of source) (nodes []library.Node, err error) {
	if of.current != nil {
		return nil, nil
	}
	for _, name := range []string{fileChanges, fileChangesTable} {
		d, err := f.changesDocument(ctx, of, name)
		if err != nil {
			return nil, err
		}
		if !d.Known(f.view.Archive.Memo) {
			continue
		}
		e, err := f.changes(ctx, of, name)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, e.Node)
	}
	return nodes, nil
}

// changedHosts returns, in the order of their keys, the hosts of a domain that changed on a day and
// lie in the account's scope: an edition brought something of them, or something was taken down,
// lifted or erased. It holds some 60 bytes a host.
func (f *finder) changedHosts(ctx context.Context, of source) (hosts []string, err error) {
	var keys []string
	for _, ed := range of.editions {
		if catalog.DayOf(ed.Name) != of.name {
			continue // nothing was published on the day
		}
		for h, err := range f.view.Snap.EditionSizes(ctx, ed.Name, account.KeyPrefix(of.place)) {
			if err != nil {
				return nil, err
			}
			keys = append(keys, h.Key)
		}
	}
	withdrawn, err := f.withdrawn(ctx, of.name)
	if err != nil {
		return nil, err
	}
	keys = append(keys, withdrawn...)
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		place := strings.ReplaceAll(key, ",", "/")
		if !account.Within(place, of.place) || !f.view.Scope.Holds(place) {
			continue
		}
		host, err := naming.HostFromPath(place)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, host)
	}
	return hosts, nil
}

// withdrawn returns the keys of hosts of which something that the account saw was taken down,
// lifted or erased on a day. It adds the hosts of which access rules may have begun or ceased to
// hide something. Keys may come several times.
func (f *finder) withdrawn(ctx context.Context, day string) (keys []string, err error) {
	v := f.view
	key := fmt.Sprintf("withdrawn %d", v.Snap.Withdrawals())
	days, err := library.SharedByAll(ctx, v, key, func(ctx context.Context, v *library.AccountView) (map[string][]catalog.Tombstone, int64, error) {
		all, err := v.Snap.Takedowns(ctx, "")
		days, size := make(map[string][]catalog.Tombstone), 0
		for _, t := range all {
			at := v.Snap.DayAt(t.At)
			days[at] = append(days[at], t)
			size += 400 + len(t.Host) + len(t.URLPrefix) + len(t.Reason)
		}
		return days, int64(size), err
	})
	if err != nil {
		return nil, err
	}
	for _, t := range days[day] {
		if !v.Scope.Holds(naming.HostPath(t.Host)) {
			continue
		}
		saw, err := v.Saw(ctx, day, t)
		if err != nil {
			return nil, err
		}
		if saw {
			keys = append(keys, catalog.Key(t.Host))
		}
	}
	turned, err := f.turned(ctx, day)
	return append(keys, turned...), err
}

// turned returns the keys of hosts of which access rules may have begun or ceased to hide something
// from the account on a day, sorted.
func (f *finder) turned(ctx context.Context, day string) (keys []string, err error) {
	end, err := f.view.Snap.DayEnd(day)
	if err != nil {
		return nil, nil // it is no day
	}
	turns, err := f.view.Archive.Rules.Turns(ctx, f.view.Account, f.view.Scope, end.AddDate(0, 0, -1).Add(-1), end.Add(-1))
	if err != nil || len(turns) == 0 {
		return nil, err
	}
	key := fmt.Sprintf("turned %d %q %v", f.view.Snap.Version(), day, turns)
	return library.Shared(ctx, f.view, key, func(ctx context.Context, v *library.AccountView) (keys []string, cost int64, err error) {
		editions, err := v.Snap.Editions(ctx)
		if err != nil {
			return nil, 0, err
		}
		for _, turn := range turns {
			for _, ed := range editions {
				if !ed.Published.After(turn.From) || ed.Published.After(turn.To) {
					continue
				}
				for h, err := range v.Snap.EditionSizes(ctx, ed.Name, account.KeyPrefix(turn.Place)) {
					if err != nil {
						return nil, 0, err
					}
					if place := strings.ReplaceAll(h.Key, ",", "/"); account.Within(place, turn.Place) && v.Scope.Holds(place) {
						keys = append(keys, h.Key)
					}
				}
			}
			slices.Sort(keys)
			keys = slices.Compact(keys)
		}
		return keys, int64(64 * len(keys)), nil
	})
}

// withdrawnOnly is for a day on which nothing was published. If something was withdrawn on the day,
// it returns the newest edition before the day, which stands in for the day's editions.
func (f *finder) withdrawnOnly(ctx context.Context, day string) ([]catalog.Edition, error) {
	keys, err := f.withdrawn(ctx, day)
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	days, err := f.days(ctx)
	before := ""
	for _, d := range days {
		if d.name < day {
			before = d.name
		}
	}
	if err != nil || before == "" {
		return nil, err
	}
	all, err := f.view.Snap.DayEditions(ctx, before)
	return all[max(0, len(all)-1):], err
}

// eachChange calls emit with what a day changed of a domain.
func (f *finder) eachChange(ctx context.Context, of source, emit func(library.DayChange) error) error {
	hosts, err := f.changedHosts(ctx, of)
	if err != nil {
		return err
	}
	day, err := time.Parse("20060102", of.name)
	if err != nil {
		return err
	}
	before := day.AddDate(0, 0, -1).Format("20060102")
	p := &placer{finder: f, of: of, days: make(map[string]*dayParts)}
	for _, host := range hosts {
		p.key, p.volumes = catalog.Key(host), make(map[string]func(int64, int) (library.Stretch, library.Stretch, bool))
		if err := f.view.DayChanges(ctx, host, before, of.name, p.place, emit); err != nil {
			return fmt.Errorf("host %s: %w", host, err)
		}
	}
	return nil
}

// placer finds where records lie in the volumes of days.
type placer struct {
	*finder
	of   source
	days map[string]*dayParts

	key     string                                                               // of the host
	volumes map[string]func(int64, int) (library.Stretch, library.Stretch, bool) // of the host, by day/volume
}

// dayParts are the volumes of a day.
type dayParts struct {
	source
	parts []part
	of    map[string][]int // by edition, the numbers of its parts
}

// most is how many days' volumes a placer remembers.
const most = 100

func (p *placer) ofDay(ctx context.Context, day string) (*dayParts, error) {
	if known := p.days[day]; known != nil {
		return known, nil
	}
	editions, err := p.view.Snap.DayEditions(ctx, day)
	if err != nil {
		return nil, err
	}
	d := &dayParts{source: source{name: day, editions: editions, place: p.of.place}, of: make(map[string][]int)}
	if d.parts, err = p.volumeParts(ctx, d.source); err != nil {
		return nil, err
	}
	for i, part := range d.parts {
		for _, ed := range part.editions {
			d.of[ed.Name] = append(d.of[ed.Name], i)
		}
	}
	if len(p.days) >= most {
		clear(p.days)
	}
	p.days[day] = d
	return d, nil
}

// place is a library.Placer. It returns nil if the record is in no volume any more.
func (p *placer) place(ctx context.Context, seg catalog.SegmentEntry, cell int) (*library.DayPlace, error) {
	d, err := p.ofDay(ctx, catalog.DayOf(seg.Edition))
	if err != nil {
		return nil, err
	}
	of := d.of[seg.Edition]
	i := slices.IndexFunc(of, func(i int) bool { to := d.parts[i].to; return to == "" || p.key <= to })
	if i < 0 {
		return nil, nil
	}
	at := &library.DayPlace{Day: d.name, Volume: numbered(of[i] + 1)}
	find, known := p.volumes[at.Day+"/"+at.Volume]
	if !known {
		v, err := p.volume(ctx, d.source, d.parts[of[i]], at.Volume)
		if err != nil {
			return nil, err
		}
		if find, err = v.Places(ctx, p.key); err != nil {
			return nil, err
		}
		p.volumes[at.Day+"/"+at.Volume] = find
	}
	if find == nil {
		return nil, nil
	}
	var ok bool
	if at.Tar, at.WARC, ok = find(seg.Seq, cell); !ok {
		return nil, nil
	}
	return at, nil
}

// MakeChanges writes the changes of a day's domains, as an account sees them, so that readers need
// not wait for them.
func (t *Tree) MakeChanges(ctx context.Context, a *account.Account, day string) error {
	domains := make(map[string]bool)
	for n, err := range t.List(ctx, a, "/"+dirDays+"/"+day) {
		if err != nil {
			return err
		}
		domains[n.Name] = true
	}
	for _, domain := range slices.Sorted(maps.Keys(domains)) {
		for _, name := range []string{fileChanges, fileChangesTable} {
			if _, err := t.Stat(ctx, a, "/"+dirDays+"/"+day+"/"+domain+"/"+name); err != nil && !library.IsNotFound(err) {
				return err
			}
		}
	}
	return nil
}
