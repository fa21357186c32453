package powerloss

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// State is a possible state of a disk after a power failure.
type State struct {
	After   int    // number of operations before the failure
	Which   string // name of the state among the possible ones after these operations
	Extreme bool   // everything that can be lost is lost, or nothing is
	root    *image
}

// image is a file, or a directory with entries.
type image struct {
	entries map[string]*image
	data    []byte
}

// Write writes the state into an empty directory.
func (s State) Write(dir string) error { return s.root.write(dir) }

func (i *image) write(dir string) error {
	for name, e := range i.entries {
		to := filepath.Join(dir, name)
		var err error
		if e.entries == nil {
			err = os.WriteFile(to, e.data, 0o644)
		} else {
			err = errors.Join(os.Mkdir(to, 0o755), e.write(to))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// States yields states after each number of operations from first on: those with the largest and
// the smallest loss, those with a single deviation from either, and a number of random ones, from a
// generator with a fixed seed. random is that number.
func (r *Recorder) States(first, random int) iter.Seq[State] {
	return func(yield func(State) bool) {
		r.mu.Lock()
		ops := slices.Clone(r.ops)
		r.mu.Unlock()
		d, chance := newDisk(), rand.New(rand.NewPCG(1, 2))
		for n := range len(ops) + 1 {
			if n > 0 {
				ops[n-1](d)
			}
			if n >= first && !d.states(n, random, chance, yield) {
				return
			}
		}
	}
}

// choice is a part of the disk that may be durable as a whole, partly or not at all: the changes of
// one name, or the bytes of a file.
type choice struct {
	what    string
	options int
	choose  func(option int) // from 0, all lost, to options-1, nothing lost
}

// The fates of unsynced bytes in the failure.
const (
	bytesLost = iota
	bytesHalf
	bytesZero
	bytesThere
	bytesWays
)

// Names of the extreme states.
const (
	allLost     = "all lost"
	nothingLost = "nothing lost"
)

func (d *disk) states(after, random int, chance *rand.Rand, yield func(State) bool) bool {
	contents := map[*node]int{} // the fates of the bytes of unsynced files
	choices := d.choices(contents)
	try := func(which string, option func(i int) int) bool {
		for i, c := range choices {
			c.choose(option(i))
		}
		return yield(State{After: after, Which: which, Extreme: which == allLost || which == nothingLost, root: d.root.found(contents)})
	}
	least := func(int) int { return 0 }
	most := func(i int) int { return choices[i].options - 1 }
	if !try(allLost, least) || len(choices) > 0 && !try(nothingLost, most) {
		return false
	}
	for i, c := range choices {
		for o := range c.options {
			but := func(other func(int) int) func(int) int {
				return func(j int) int {
					if j == i {
						return o
					}
					return other(j)
				}
			}
			if o > 0 && !try(fmt.Sprintf("only %s, %d of %d", c.what, o, c.options-1), but(least)) {
				return false
			}
			if o < c.options-1 && !try(fmt.Sprintf("all but %s, %d of %d", c.what, o, c.options-1), but(most)) {
				return false
			}
		}
	}
	for n := range random {
		if len(choices) > 2 && !try(fmt.Sprintf("random %d", n), func(i int) int { return chance.IntN(choices[i].options) }) {
			return false
		}
	}
	return true
}

// choices lists the parts of the disk that are not durable, in the order of names.
func (d *disk) choices(contents map[*node]int) (all []choice) {
	seen := map[*node]bool{}
	var visit func(name string, n *node)
	visit = func(name string, n *node) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		if n.dirty {
			all = append(all, choice{"the bytes of " + name, bytesWays, func(o int) { contents[n] = o }})
		}
		names := maps.Clone(n.kept)
		for base, changes := range n.changes {
			names[base] = nil
			all = append(all, choice{"the entry " + path.Join(name, base), len(changes) + 1, func(o int) {
				for i, c := range changes {
					c.lost = i >= o
				}
			}})
		}
		slices.SortFunc(all, func(a, b choice) int { return strings.Compare(a.what, b.what) })
		for _, base := range slices.Sorted(maps.Keys(names)) {
			visit(path.Join(name, base), n.kept[base])
			for _, c := range n.changes[base] {
				visit(path.Join(name, base), c.to)
			}
		}
	}
	visit("", d.root)
	return all
}

// found returns the node's image on disk after the choices.
func (n *node) found(contents map[*node]int) *image {
	if n.entries == nil {
		return &image{data: n.bytes(contents)}
	}
	dir := &image{entries: map[string]*image{}}
	names := maps.Clone(n.kept)
	for base, changes := range n.changes {
		for _, c := range changes {
			if c.lost || c.needs != nil && c.needs.lost {
				break
			}
			if c.to == nil {
				delete(names, base)
			} else {
				names[base] = c.to
			}
		}
	}
	for base, to := range names {
		dir.entries[base] = to.found(contents)
	}
	return dir
}

func (n *node) bytes(contents map[*node]int) []byte {
	if !n.dirty {
		return n.synced
	}
	safe := 0 // bytes at the beginning that are durable
	if bytes.HasPrefix(n.data, n.synced) {
		safe = len(n.synced)
	}
	switch contents[n] {
	case bytesHalf:
		return n.data[:safe+(len(n.data)-safe)/2]
	case bytesZero:
		return append(n.data[:safe:safe], make([]byte, len(n.data)-safe)...)
	case bytesThere:
		return n.data
	}
	return n.synced
}
