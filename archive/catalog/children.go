package catalog

import (
	"context"
	"fmt"
	"strings"
)

// Children lists a directory of the tree of reversed host names: up to limit
// entries below path ("" is the root, "jp/ac" the academic hosts) whose names
// sort behind after, in order. No limit is set by limit <= 0. An entry may be a
// host, have hosts below it, or both. It costs a few seeks for each entry,
// however many hosts lie below.
func (s *Snapshot) Children(ctx context.Context, path, after string, limit int) ([]Child, error) {
	d := directory{snapshot: s, table: openTable(s.state.runs), prefix: tableHost + keyOfPath(path)}
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

// directory walks one directory of the tree.
type directory struct {
	snapshot *Snapshot
	table    *table
	prefix   string // of the rows below it
}

func (d *directory) list(ctx context.Context, start string, limit int) (children []Child, err error) {
	if err := d.table.seek(ctx, start); err != nil {
		return nil, err
	}
	for d.table.under(d.prefix) && (limit <= 0 || len(children) < limit) {
		name, _, _ := strings.Cut(hostOfRow(d.table.row())[len(d.prefix)-len(tableHost):], ",")
		child := Child{Name: name, Modified: d.snapshot.Published()}
		if err := d.leaf(ctx, &child); err != nil {
			return nil, err
		}
		if err := d.inner(ctx, &child); err != nil {
			return nil, err
		}
		if child.Leaf || child.Inner {
			children = append(children, child)
		}
		if err := d.table.seek(ctx, afterSubtree(d.prefix+name)); err != nil {
			return nil, err
		}
	}
	return children, nil
}

// leaf reads the rows of the child's own host, if it is one.
func (d *directory) leaf(ctx context.Context, child *Child) error {
	rows := d.prefix + child.Name + " "
	for d.table.under(rows) {
		l, err := lineOfRow(d.table.row())
		if err != nil {
			return err
		}
		if !d.snapshot.hidden(l) {
			child.Leaf, child.Modified = true, l.Published
		}
		if err := d.table.next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// inner looks for a line below the child that is not taken down.
func (d *directory) inner(ctx context.Context, child *Child) error {
	below := d.prefix + child.Name + ","
	if !d.table.under(below) {
		return nil
	}
	for d.table.under(below) {
		l, err := lineOfRow(d.table.row())
		if err != nil {
			return err
		}
		if !d.snapshot.hidden(l) {
			child.Inner = true
			return nil
		}
		if err := d.table.next(ctx); err != nil {
			return err
		}
	}
	return nil
}
