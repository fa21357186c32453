package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"sheaf/archive"
)

// hashed is the size up to which the data of a WACZ is read for its digest where
// the catalog does not know that. A larger file goes without: its index and its
// records have digests of their own.
const hashed = 64 << 20

// wacz puts the archive's .wacz together, or finds it put together.
func (s selection) wacz(ctx context.Context) (*archive.WACZ, error) {
	return recall(ctx, s.cache, s.key("wacz", s.base), func(ctx context.Context) (*archive.WACZ, int64, error) {
		parts, _, err := s.parts(ctx)
		if err != nil {
			return nil, 0, err
		}
		sum, err := s.warcSum(ctx)
		if err != nil {
			return nil, 0, fmt.Errorf("host %s: %w", s.name, err)
		}
		z, err := archive.NewWACZ(parts, archive.WACZOptions{
			Title: s.name + " " + s.base, Created: s.modified(), WARCSHA256: sum,
		})
		if err != nil {
			return nil, 0, fmt.Errorf("host %s: %w", s.name, err)
		}
		return z, z.Held(), nil
	})
}

// warcSum is the SHA-256 of the archive's WARC view, or empty where it is not known and
// long to find out.
func (s selection) warcSum(ctx context.Context) (string, error) {
	whole, err := s.whole(ctx)
	if err != nil {
		return "", err
	}
	if known, ok := s.lines[0].Views[string(archive.WARC)]; ok && whole {
		return known.SHA256, nil
	}
	view, err := s.assemble(ctx, archive.WARC)
	if err != nil || view.Size() > hashed {
		return "", err
	}
	r, err := view.OpenRange(ctx, 0, view.Size())
	if err != nil {
		return "", err
	}
	defer r.Close()
	d := sha256.New()
	if _, err := io.Copy(d, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(d.Sum(nil)), nil
}
