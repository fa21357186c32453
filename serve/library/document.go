package library

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"sheaf/internal/cache"
)

// Text returns the file of a short text.
func Text(name, media string, modified time.Time, text []byte) *Entry {
	sum := sha256.Sum256(text)
	return textEntry(name, media, modified, int64(len(text)), hex.EncodeToString(sum[:]), Bytes(text))
}

func textEntry(name, media string, modified time.Time, size int64, sum string, text Ranges) *Entry {
	return &Entry{
		Node: Node{Name: name, Size: size, Modified: Seconds(modified), Type: media, SHA256: sum, ETag: `"` + sum[:32] + `"`},
		Open: func(context.Context) (Ranges, error) { return text, nil },
	}
}

// Document is a text that may be long. It is computed, and has the same bytes each time it is
// written.
type Document struct {
	Name     string
	Type     string // media type
	Modified time.Time
	Key      string // everything that the bytes depend on, besides Name

	// Write must not use anything that the caller of Entry releases.
	Write  func(context.Context, io.Writer) error
	Spools *Spools // keeps the bytes
}

// maxHeld is the size up to which the bytes of a document are kept in memory.
const maxHeld = 1 << 20

// Entry returns the file. It writes the document once to measure it, unless memo has its size and
// digest.
func (d *Document) Entry(ctx context.Context, memo *cache.Memo) (*Entry, error) {
	key := d.memoKey()
	known, ok := memo.Get(key)
	if !ok {
		text, err := d.Spools.open(ctx, key, d.Write)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
		d.Spools.release(text)
		known = &text.measured
		memo.Add(key, known, int64(len(text.body))+256)
	}
	m := known.(*measured)
	return textEntry(d.Name, d.Type, d.Modified, m.size, m.sha256, documentRanges{m, d.Spools, key, d.Write}), nil
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
