package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"sheaf/archive/deflate"
	"sheaf/archive/naming"
	"sheaf/internal/wire"
)

const manifestName = naming.BatchDir + "/manifest.json"

// BatchWriter joins segments to a batch. The batch is an ordinary tar.gz, too. It writes each
// segment without its end member, then a cell with a copy of the manifest, then one end member.
type BatchWriter struct {
	out io.Writer
	sum hash.Hash
	n   int64
	buf []byte // for copying segments
}

// NewBatchWriter begins a batch that is written to w. Finish ends it.
func NewBatchWriter(w io.Writer) *BatchWriter {
	sum := sha256.New()
	return &BatchWriter{out: io.MultiWriter(w, sum), sum: sum, buf: make([]byte, 64<<10)}
}

// AddSegment copies a segment's cells and index cell, and returns the manifest's description of
// them. After an error the batch is unusable.
func (b *BatchWriter) AddSegment(ctx context.Context, src Source, idx *Index) (wire.Host, error) {
	if idx.IndexLength == 0 {
		return wire.Host{}, fmt.Errorf("segment of %s has no index cell: seal it first", idx.Host)
	}
	h := wire.Host{Name: idx.Host, Offset: b.n, Length: idx.CellsEnd + idx.IndexLength}
	rc, err := src.OpenRange(ctx, 0, h.Length)
	if err != nil {
		return wire.Host{}, err
	}
	defer rc.Close()
	sum := sha256.New()
	n, err := io.CopyBuffer(io.MultiWriter(b.out, sum), io.LimitReader(rc, h.Length), b.buf)
	if b.n += n; err == nil && n < h.Length {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return wire.Host{}, fmt.Errorf("copy segment %s of %s at %d: %w", idx.Segment, idx.Host, n, err)
	}
	h.SHA256 = hex.EncodeToString(sum.Sum(nil))
	var s Summary
	for i := range idx.Cells {
		s.count(&idx.Cells[i])
	}
	h.Records, h.Revisits, h.First, h.Last = s.Records, s.Revisits, s.First, s.Last
	return h, nil
}

// Finish writes the copy of the manifest and the end member, and returns the batch's size and
// SHA-256.
func (b *BatchWriter) Finish(manifest []byte) (size int64, digest string, err error) {
	comp, err := deflate.NewCompressor(6)
	if err != nil {
		return 0, "", err
	}
	headers := (&tarEntry{name: manifestName, size: int64(len(manifest)), modified: time.Unix(0, 0)}).headers()
	cell := appendMember(nil, nil, comp.Run(headers), []byte{3, 0}, deflate.CRC(headers), int64(len(headers)))
	pad := padding(int64(len(manifest)))
	sum := deflate.CRCWithZeros(deflate.CRC(manifest), pad)
	cell = appendMember(cell, nil, comp.Run(manifest), padBlock(int64(len(manifest))), sum, int64(len(manifest)+pad))
	cell = append(cell, EndMember(0, 0)...)
	n, err := b.out.Write(cell)
	b.n += int64(n)
	return b.n, hex.EncodeToString(b.sum.Sum(nil)), err
}

// BeginsBatch reports whether a file that begins with head may be a batch or a segment. Only these
// begin with a member that has a WL field. If head has fewer than 14 bytes, it reports whether the
// file may still be one of them.
func BeginsBatch(head []byte) bool {
	at := gzipHeader + 2
	if len(head) <= at {
		return strings.HasPrefix(gzipStart, string(head[:min(len(head), gzipHeader)]))
	}
	return string(head[:gzipHeader]) == gzipStart && strings.HasPrefix(string(head[at:]), "WL"[:min(2, len(head)-at)])
}
