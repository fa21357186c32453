package powerloss

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// disk is a directory tree: as the running program sees it, and as far as it is durable.
type disk struct {
	root *node
	open map[*file]*node
}

// node is a file or a directory.
type node struct {
	entries map[string]*node     // of a directory, as the program sees it; nil: this is a file
	kept    map[string]*node     // durable entries
	changes map[string][]*change // changes of entries that are not durable, by name, in order

	data   []byte // of a file, as the program sees it
	synced []byte // the durable data
	dirty  bool   // data is not durable
}

// change is the creation, replacement or removal of a directory's entry.
type change struct {
	to    *node   // new entry; nil: removed
	needs *change // change that must be on disk before this one; nil: none
	lost  bool    // lost in the state that is being built
}

func newDir() *node {
	return &node{entries: map[string]*node{}, kept: map[string]*node{}, changes: map[string][]*change{}}
}

func newDisk() *disk { return &disk{root: newDir(), open: map[*file]*node{}} }

// find returns the node of a path, or nil.
func (d *disk) find(name string) *node {
	n := d.root
	if name == "." {
		return n
	}
	for part := range strings.SplitSeq(name, "/") {
		if n == nil {
			return nil
		}
		n = n.entries[part]
	}
	return n
}

func (d *disk) set(name string, to *node, needs *change) *change {
	dir, base := d.find(path.Dir(name)), path.Base(name)
	c := &change{to: to, needs: needs}
	dir.changes[base] = append(dir.changes[base], c)
	if to == nil {
		delete(dir.entries, base)
	} else {
		dir.entries[base] = to
	}
	return c
}

func (d *disk) add(name string, n *node) { d.set(name, n, nil) }

func (d *disk) remove(name string) { d.set(name, nil, nil) }

func (d *disk) move(from, to string) {
	added := d.set(to, d.find(from), nil)
	d.set(from, nil, added)
}

func (d *disk) removeAll(name string) {
	n := d.find(name)
	if n == nil {
		return
	}
	for _, base := range slices.Sorted(maps.Keys(n.entries)) {
		d.removeAll(path.Join(name, base))
	}
	d.remove(name)
}

func (n *node) syncDir() {
	n.kept = maps.Clone(n.entries)
	for _, changes := range n.changes {
		for _, c := range changes {
			c.lost = false
		}
	}
	clear(n.changes)
}

func (n *node) write(p []byte) {
	n.data = append(n.data, p...)
	n.dirty = true
}

func (n *node) truncate() {
	n.data = nil
	n.dirty = true
}

func (n *node) sync() {
	n.synced = slices.Clone(n.data)
	n.dirty = false
}
