package catalog

import (
	"context"
	"fmt"
	"strings"

	"sheaf/archive/naming"
)

// Children lists a directory of the tree of reversed host names: up to limit entries directly below
// path whose names sort behind after, in the order of names. The path "" is the root, "jp/ac" has
// the academic hosts. A limit of 0 or less means all. An entry may be a host, have hosts below it,
// or both. Each entry takes a few seeks, however many hosts are below it.
func (s *Snapshot) Children(ctx context.Context, path, after string, limit int) ([]Child, error) {
	runs, err := s.live()
	if err != nil {
		return nil, fmt.Errorf("catalog: directory %q: %w", path, err)
	}
	d := directory{snapshot: s, table: openTable(runs), prefix: tableSummary + keyOfPath(path)}
	start := d.prefix
	if after != "" {
		start += afterSubtree(after)
	}
	children, err := d.list(ctx, start, limit)
	if err != nil {
		return nil, fmt.Errorf("catalog: directory %q: %w", path, err)
	}
	return children, nil
}

// directory walks one directory of the tree by the hosts' summaries.
type directory struct {
	snapshot *Snapshot
	table    *table
	prefix   string // of the rows below the directory
}

func (d *directory) list(ctx context.Context, start string, limit int) (children []Child, err error) {
	if err := d.table.seek(ctx, start); err != nil {
		return nil, err
	}
	stones := d.snapshot.catalog.current().tombstones
	for d.table.under(d.prefix) && (limit <= 0 || len(children) < limit) {
		name, _, _ := strings.Cut(hostOfRow(d.table.Row())[len(d.prefix)-len(tableSummary):], ",")
		child := Child{Name: name, Modified: d.snapshot.Published()}
		if err := d.leaf(ctx, &child, stones); err != nil {
			return nil, err
		}
		if err := d.inner(ctx, &child, stones); err != nil {
			return nil, err
		}
		if child.Leaf || child.Inner {
			children = append(children, child)
		}
		if err := d.table.advance(ctx, afterSubtree(d.prefix+name)); err != nil {
			return nil, err
		}
	}
	return children, nil
}

// leaf sets Leaf and Modified of a child that is a host. If nothing of the host is taken down or
// hidden, leaf needs only the host's last row.
func (d *directory) leaf(ctx context.Context, child *Child, stones tombstones) error {
	key := d.prefix[len(tableSummary):] + child.Name
	rows := tableSummary + key + " "
	if !d.table.under(rows) {
		return nil
	}
	if !touched(d.snapshot, key, stones) { // the last entry never expires
		last, err := d.table.lastUnder(ctx, rows)
		if err != nil {
			return err
		}
		s, err := summaryOfRow(last)
		child.Leaf, child.Modified = true, fromNanoseconds(s.Published)
		return err
	}
	for l, err := range d.snapshot.entries(ctx, key) {
		if err != nil {
			return err
		}
		child.Leaf, child.Modified = true, l.Published
	}
	for _, a := range Alterations(d.snapshot, key) {
		if a.At.After(child.Modified) {
			child.Modified = a.At
		}
	}
	return d.table.advance(ctx, rows+"~") // "~" sorts behind the numbers with which the rows go on
}

// inner sets Inner if an entry below the child is neither taken down nor hidden.
func (d *directory) inner(ctx context.Context, child *Child, stones tombstones) error {
	below := d.prefix + child.Name + ","
	for d.table.under(below) {
		key := hostOfRow(d.table.Row())
		if !touched(d.snapshot, key, stones) {
			child.Inner = true
			return nil
		}
		for _, err := range d.snapshot.entries(ctx, key) {
			child.Inner = err == nil
			return err
		}
		if err := d.table.advance(ctx, tableSummary+key+" ~"); err != nil {
			return err
		}
	}
	return nil
}

// Key returns a host's sort key: its path in the tree of reversed names, with commas instead of
// slashes, such as "jp,ac,waseda,www". A comma sorts before every other byte of a key. So the hosts
// below a name follow directly after the name, and reading a directory of the tree takes few seeks.
func Key(host string) string {
	return strings.ReplaceAll(naming.HostPath(host), "/", ",")
}

// keyOfPath returns the prefix that the keys of all hosts below a path have.
func keyOfPath(path string) string {
	path = strings.Trim(path, "/")
	if path == "" {
		return ""
	}
	return strings.ReplaceAll(path, "/", ",") + ","
}

// afterSubtree returns the least text that sorts behind all texts that begin with the key and ",".
func afterSubtree(key string) string { return key + "-" }
