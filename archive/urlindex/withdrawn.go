package urlindex

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/internal/weburl"
)

// withdrawn tells which rows are gone for good: their entry has expired, or they are erased. Rows
// that are only taken down are not gone, because a take-down may be lifted.
type withdrawn struct {
	expired []uint64                       // one bit for each sequence number
	erased  map[string][]catalog.Tombstone // by the common prefix of the host's URL keys
	stay    int64                          // the last entry that an erasure covers of which rows stay; see covered
}

// loadWithdrawn reads the expiries and erasures of a version of the catalog.
func loadWithdrawn(ctx context.Context, snap *catalog.Snapshot) (*withdrawn, error) {
	w := &withdrawn{erased: make(map[string][]catalog.Tombstone)}
	for e, err := range snap.Expired(ctx) {
		if err != nil {
			return nil, err
		}
		if w.expired == nil {
			w.expired = make([]uint64, snap.Last()/64+1)
		}
		if e.Entry < 0 || e.Entry > snap.Last() {
			return nil, fmt.Errorf("expiry of entry %d, the last is %d", e.Entry, snap.Last())
		}
		w.expired[e.Entry/64] |= 1 << (e.Entry % 64)
	}
	stones, err := snap.Takedowns(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, t := range stones {
		if t.Act == catalog.Erase {
			key := keyOfHost(t.Host)
			w.erased[key] = append(w.erased[key], t)
			if t.Collection+t.Robot != "" {
				w.stay = max(w.stay, t.Through)
			}
		}
	}
	return w, nil
}

// keyOfHost returns the prefix of a host's URL keys. It is the same for a host with and without
// "www.".
func keyOfHost(host string) string {
	scheme := "http"
	if strings.HasSuffix(host, ":80") {
		scheme = "https" // its URL keys keep port 80
	}
	key, _, _ := strings.Cut(naming.SURT(scheme+"://"+host+"/"), ")")
	return key + ")"
}

// has reports whether the row of a well-formed line is gone for good.
func (w *withdrawn) has(line []byte) (bool, error) {
	if w.expired != nil {
		seq, err := seqOf(line)
		if err != nil {
			return false, err
		}
		if w.isExpired(seq) {
			return true, nil
		}
	}
	if len(w.erased) == 0 {
		return false, nil
	}
	stones := w.erased[string(line[:bytes.IndexByte(line, ')')+1])]
	if len(stones) == 0 {
		return false, nil
	}
	r, err := parseRow(line)
	if err != nil {
		return false, err
	}
	return covered(r, stones), nil
}

// isExpired reports whether the entry with this sequence number has expired.
func (w *withdrawn) isExpired(seq int64) bool {
	return seq/64 < int64(len(w.expired)) && w.expired[seq/64]>>(seq%64)&1 == 1
}

// covered reports whether an erasure covers the row. It skips erasures of collections and robots,
// because a row does not name its record's. So such rows stay in the index, like rows that are only
// taken down.
func covered(r *Row, stones []catalog.Tombstone) bool {
	host := r.Host()
	for _, t := range stones {
		if t.Host == host && t.Collection+t.Robot == "" && r.Seq <= t.Through && (t.Edition == "" || t.Edition == r.edition()) && (t.URLPrefix == "" || weburl.PrefixOf(t.URLPrefix).Holds(r.URL)) {
			return true
		}
	}
	return false
}

// seqOf returns the sequence number in a line without parsing the rest.
func seqOf(line []byte) (int64, error) {
	const name = `,"seq":`
	if i := bytes.LastIndex(line, []byte(name)); i >= 0 {
		digits, _, _ := bytes.Cut(line[i+len(name):], []byte(","))
		if seq, err := strconv.ParseInt(string(digits), 10, 64); err == nil && seq > 0 {
			return seq, nil
		}
	}
	r, err := parseRow(line) // not written by appendRow
	if err != nil {
		return 0, err
	}
	return r.Seq, nil
}
