package archive

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// viewVersion is part of every ETag. Change it when views of the same segments get other bytes.
const viewVersion = "1"

// viewETag returns the ETag of a view's bytes. It holds the version, the kind, and a digest of the
// segments, in order, and of the selected cells.
func viewETag(kind ViewKind, parts []Part) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%s %t %d\n", p.Digest, p.Cells == nil, len(p.Cells))
		for _, n := range p.Cells {
			h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
		}
	}
	return fmt.Sprintf(`"%s%s-%s"`, kind, viewVersion, hex.EncodeToString(h.Sum(nil)[:16]))
}

// SegmentETag returns the ETag of a whole segment's view. digest is the segment's SHA-256.
func SegmentETag(kind ViewKind, digest string) string {
	return viewETag(kind, []Part{{Digest: digest}})
}
