package library

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"sheaf/internal/cache"
)

// Document is a text that is computed. It has the same bytes each time it is written.
type Document struct {
	Name     string
	Type     string // media type
	Modified time.Time
	Key      string // everything that the bytes depend on, besides Name
	Write    func(context.Context, io.Writer) error

	// Spools keeps the bytes of a document that may be long. Its Write must then not use anything
	// that the caller releases. If Spools is nil, the document is short: it is kept in memory.
	Spools *Spools
}

// maxHeld is the size up to which the bytes of a document with Spools are kept in memory.
const maxHeld = 1 << 20

// Entry returns the file. It writes the document once to measure it, unless memo has its size and
// digest.
func (d *Document) Entry(ctx context.Context, memo *cache.Memo) (*Entry, error) {
	key := d.memoKey()
	var m *measured
	if known, ok := memo.Get(key); ok {
		m = known.(*measured)
	} else {
		var err error
		if m, err = d.measure(ctx, key); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
		memo.Add(key, m, int64(len(m.body))+256)
	}
	return &Entry{
		Node: Node{
			Name: d.Name, Size: m.size, Modified: Seconds(d.Modified), Type: d.Type,
			SHA256: m.sha256, ETag: `"` + m.sha256[:32] + `"`,
		},
		Open: func(context.Context) (Ranges, error) { return documentRanges{m, d.Spools, key, d.Write}, nil },
	}, nil
}

// Known reports whether memo has the document's size and digest, so that Entry need not write it.
func (d *Document) Known(memo *cache.Memo) bool {
	_, known := memo.Get(d.memoKey())
	return known
}

func (d *Document) memoKey() string { return "document " + d.Key + " " + d.Name }

// measured is what is known of a document that was written once.
type measured struct {
	size   int64
	sha256 string
	body   []byte // nil if it is in a file
}

// measure writes the document once, and returns its size and digest.
func (d *Document) measure(ctx context.Context, key string) (*measured, error) {
	if d.Spools != nil {
		text, err := d.Spools.open(ctx, key, d.Write)
		if err != nil {
			return nil, err
		}
		if text.file != nil {
			d.Spools.release(text)
		}
		return &text.measured, nil
	}
	// Not shared with other callers: what Write reads may be released when this caller goes.
	var body bytes.Buffer
	err := d.Write(ctx, &body)
	sum := sha256.Sum256(body.Bytes())
	return &measured{size: int64(body.Len()), sha256: hex.EncodeToString(sum[:]), body: body.Bytes()}, err
}
