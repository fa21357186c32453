package split

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/wire"
)

// Packs says which hosts of a batch share an object. With the zero value every host has an object
// of its own.
type Packs struct {
	Below int64 `mapstructure:"below" want:"0 to 256MiB"` // a segment of fewer bytes goes into a pack
	Size  int64 `mapstructure:"-"`                        // maximum size of a pack, in bytes; 0 is 256 MiB
}

const defaultPackSize = 256 << 20

// packing is the plan of the packs for the small hosts of a batch, in the order of their catalog
// keys. The manifest has every length, so the plan is made before the batch is read, and each
// host's entry can be staged when the host is verified. The packs are stored last, from the batch
// file, which stays in the buffers until the batch is collected. So a refused batch has stored no
// pack.
type packing struct {
	packs  []pack
	places []*place // by index of the host in the manifest; nil: the host has an object of its own
}

// pack is one object: sealed segments, one after another.
type pack struct {
	object string
	size   int64
	places []*place
}

// place is a host's segment in a pack.
type place struct {
	host   *wire.Host
	object string
	at     int64 // offset in the object
	size   int64 // of the sealed segment

	left   bool   // the host is left out, and empty members fill its place
	end    []byte // the end member, once the host is verified
	sha256 string // of the sealed segment, once the host is verified
}

// sealedSize returns the length of a host's segment with its end member.
func sealedSize(h *wire.Host) int64 { return h.Length + int64(len(archive.EndMember(1, 1))) }

// plan puts a batch's small hosts into packs, without the hosts in left. name returns the key of
// the n-th pack, from 1.
func (p Packs) plan(m *wire.Manifest, left leftOut, name func(n int) string) *packing {
	if p.Size <= 0 {
		p.Size = defaultPackSize
	}
	plan := &packing{places: make([]*place, len(m.Hosts))}
	var small []*place
	for n := range m.Hosts {
		h := &m.Hosts[n]
		if size := sealedSize(h); size < p.Below && !left.has(h.Name) {
			plan.places[n] = &place{host: h, size: size}
			small = append(small, plan.places[n])
		}
	}
	slices.SortFunc(small, func(a, b *place) int { return cmp.Compare(catalog.Key(a.host.Name), catalog.Key(b.host.Name)) })
	for _, s := range small {
		last := len(plan.packs) - 1
		if last < 0 || plan.packs[last].size+s.size > p.Size {
			plan.packs = append(plan.packs, pack{object: name(len(plan.packs) + 1)})
			last++
		}
		to := &plan.packs[last]
		s.object, s.at = to.object, to.size
		to.places, to.size = append(to.places, s), to.size+s.size
	}
	return plan
}

// leave leaves out host n of the manifest. If the host is in a pack, empty members fill its place.
func (p *packing) leave(n int) {
	if to := p.places[n]; to != nil {
		to.left = true
	}
}

// packReader reads a pack's bytes from the batch file. It fails if a segment has changed since it
// was verified. It can go back to its start, so that a store can send the pack again.
type packReader struct {
	batch io.ReaderAt
	pack  pack

	next int       // index of the next place
	part io.Reader // rest of the present place
	sum  hash.Hash // digest of the bytes read of that place
	n    int64     // bytes read
}

func (r *packReader) Read(p []byte) (int, error) {
	for {
		if r.part == nil {
			if r.next == len(r.pack.places) {
				return 0, io.EOF
			}
			to := r.pack.places[r.next]
			r.part = io.MultiReader(io.NewSectionReader(r.batch, to.host.Offset, to.host.Length), bytes.NewReader(to.end))
			if to.left {
				r.part = bytes.NewReader(emptyMembers(to.size))
			}
			r.sum = sha256.New()
			r.next++
		}
		n, err := r.part.Read(p)
		r.sum.Write(p[:n])
		r.n += int64(n)
		if err == io.EOF {
			err = r.close()
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// close ends a place, and compares the digest of its bytes with the verified one.
func (r *packReader) close() error {
	of := r.pack.places[r.next-1]
	r.part = nil
	if of.left {
		return nil
	}
	if sum := hex.EncodeToString(r.sum.Sum(nil)); sum != of.sha256 {
		return fmt.Errorf("the batch file has changed since it was verified: the segment of %s now has SHA-256 %s, had %s", of.host.Name, sum, of.sha256)
	}
	return nil
}

// Seek implements io.Seeker for the current position and for the start.
func (r *packReader) Seek(off int64, whence int) (int64, error) {
	switch {
	case whence == io.SeekCurrent && off == 0:
		return r.n, nil
	case whence == io.SeekStart && off == 0:
		*r = packReader{batch: r.batch, pack: r.pack}
		return 0, nil
	}
	return 0, errors.New("a pack is read from its start")
}
