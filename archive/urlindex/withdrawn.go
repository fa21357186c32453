package urlindex

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"sheaf/archive"
	"sheaf/archive/catalog"
)

// withdrawn tells of rows whether they are gone for good: their line has expired, or they are
// erased. What is only taken down is not.
type withdrawn struct {
	expired []uint64                       // a bit for each sequence number
	erased  map[string][]catalog.Tombstone // by what the host's URL keys begin with
}

// loadWithdrawn reads what a version of the catalog has of expiries and erasures.
func loadWithdrawn(ctx context.Context, snap *catalog.Snapshot) (*withdrawn, error) {
	w := &withdrawn{erased: make(map[string][]catalog.Tombstone)}
	for e, err := range snap.Expired(ctx) {
		if err != nil {
			return nil, err
		}
		if w.expired == nil {
			w.expired = make([]uint64, snap.Last()/64+1)
		}
		if e.Line < 0 || e.Line > snap.Last() {
			return nil, fmt.Errorf("expiry of line %d, the last is %d", e.Line, snap.Last())
		}
		w.expired[e.Line/64] |= 1 << (e.Line % 64)
	}
	stones, err := snap.Takedowns(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, t := range stones {
		if t.Act == catalog.Erase {
			key := keyOfHost(t.Host)
			w.erased[key] = append(w.erased[key], t)
		}
	}
	return w, nil
}

// keyOfHost is what the URL keys of a host begin with; namesakes with and without www have the same.
func keyOfHost(host string) string {
	scheme := "http"
	if strings.HasSuffix(host, ":80") {
		scheme = "https" // whose port 80 stays in the key
	}
	key, _, _ := strings.Cut(archive.SURT(scheme+"://"+host+"/"), ")")
	return key + ")"
}

// has reports whether the row of a well-formed line is gone.
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

// isExpired reports whether a line has expired.
func (w *withdrawn) isExpired(seq int64) bool {
	return seq/64 < int64(len(w.expired)) && w.expired[seq/64]>>(seq%64)&1 == 1
}

// covered reports whether an erasure covers the row.
func covered(r *Row, stones []catalog.Tombstone) bool {
	host := r.Host()
	for _, t := range stones {
		if t.Host == host && r.Seq <= t.Through && (t.Edition == "" || t.Edition == r.edition()) && strings.HasPrefix(r.URL, t.URLPrefix) {
			return true
		}
	}
	return false
}

// seqOf reads the line's sequence number alone: the last of the names in it.
func seqOf(line []byte) (int64, error) {
	const name = `,"seq":`
	if i := bytes.LastIndex(line, []byte(name)); i >= 0 {
		digits, _, _ := bytes.Cut(line[i+len(name):], []byte(","))
		if seq, err := strconv.ParseInt(string(digits), 10, 64); err == nil && seq > 0 {
			return seq, nil
		}
	}
	r, err := parseRow(line) // of another writer
	if err != nil {
		return 0, err
	}
	return r.Seq, nil
}
