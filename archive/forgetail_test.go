package archive

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

// TestBatchTailForgeries breaks the rules of a batch's last two cells, with all sums right.
func TestBatchTailForgeries(t *testing.T) {
	f := newForge(t)
	manifest := []byte(`{"format":1}`)
	entry := func(name string, at time.Time, size int) []byte {
		return (&tarEntry{name: name, size: int64(size), modified: at}).headers()
	}
	good := entry(manifestName, time.Unix(0, 0), len(manifest))
	changed := func(at int, with byte) []byte {
		h := bytes.Clone(good)
		h[at] ^= with
		resum(h)
		return h
	}
	end := EndMember(0, 0)
	cell := func(headers, extra []byte) []byte { return f.tarOnly(nil, headers, manifest, extra) }
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	if got, err := VerifyBatchTail(bytes.NewReader(join(cell(good, nil), end))); err != nil || !bytes.Equal(got, manifest) {
		t.Fatalf("the unchanged tail gives %q, %v", got, err)
	}
	segment, _ := f.build()
	whole := cell(good, nil)
	for name, tail := range map[string][]byte{
		"another name":            join(cell(entry("_batch/other.json", time.Unix(0, 0), len(manifest)), nil), end),
		"a name out of the tree":  join(cell(entry("../manifest.json", time.Unix(0, 0), len(manifest)), nil), end),
		"a time":                  join(cell(entry(manifestName, time.Unix(1, 0), len(manifest)), nil), end),
		"a size too small":        join(cell(entry(manifestName, time.Unix(0, 0), len(manifest)-1), nil), end),
		"a size too large":        join(cell(entry(manifestName, time.Unix(0, 0), len(manifest)+1), nil), end),
		"a size of exabytes":      join(cell(entry(manifestName, time.Unix(0, 0), 1<<32), nil), end),
		"another mode":            join(cell(changed(105, 1), nil), end),
		"another owner":           join(cell(changed(110, 1), nil), end),
		"a link":                  join(cell(changed(156, 2), nil), end),
		"a link's name":           join(cell(changed(157, 'x'), nil), end),
		"a user's name":           join(cell(changed(265, 'x'), nil), end),
		"another magic":           join(cell(changed(257, 1), nil), end),
		"further fields":          join(cell(good, appendField(nil, "XX", nil)), end),
		"a member's WI":           join(cell(good, appendField(nil, "WI", make([]byte, 16))), end),
		"WI in the end member":    join(whole, EndMember(0, int64(len(whole)))),
		"no end member":           whole,
		"two end members":         join(whole, end, end),
		"two manifests":           join(whole, whole, end),
		"bytes after it":          join(whole, end, []byte{0}),
		"an end member alone":     end,
		"a host instead":          segment,
		"a host before it":        join(segment[:len(segment)-endMemberSize], whole, end),
		"nothing":                 {},
		"T twice":                 join(whole[:bytes.Index(whole[1:], []byte(gzipStart))+1], whole, end),
		"cut within the manifest": whole[:len(whole)-20],
	} {
		t.Run(name, func(t *testing.T) {
			_, err := VerifyBatchTail(bytes.NewReader(tail))
			var ferr *FormatError
			if !errors.As(err, &ferr) || ferr.Offset < 0 || ferr.Offset > int64(len(tail)) {
				t.Errorf("verified with %v", err)
			}
		})
	}
}
