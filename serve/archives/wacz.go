package archives

import (
	"context"
	"fmt"

	"sheaf/archive"
	"sheaf/internal/bytecache"
)

// maxHashed is the size up to which the data of a WACZ is read for its digest, if the catalog does
// not know the digest. A larger file has none: its index and its records have digests of their own.
const maxHashed = 64 << 20

// wacz computes the archive's .wacz.
func (a Archive) wacz(ctx context.Context) (*archive.WACZ, error) {
	return bytecache.GetOrCompute(ctx, a.host.from.Memo, a.key("wacz", a.base), func(ctx context.Context) (*archive.WACZ, int64, error) {
		parts, _, err := a.parts(ctx)
		if err != nil {
			return nil, 0, err
		}
		sum, err := a.warcSum(ctx)
		if err != nil {
			return nil, 0, fmt.Errorf("host %s: %w", a.host.Name, err)
		}
		z, err := archive.NewWACZ(parts, archive.WACZOptions{
			Title: a.host.Name + " " + a.base, Created: a.modified(), WARCSHA256: sum,
		})
		if err != nil {
			return nil, 0, fmt.Errorf("host %s: %w", a.host.Name, err)
		}
		return z, z.Held(), nil
	})
}

// warcSum returns the SHA-256 of the archive's WARC view. It is empty if it is not known and the
// view is large.
func (a Archive) warcSum(ctx context.Context) (string, error) {
	v, known, err := a.view(ctx, archive.WARC)
	if known || err != nil {
		return v.SHA256, err
	}
	view, err := a.assemble(ctx, archive.WARC)
	if err != nil || view.Size() > maxHashed {
		return "", err
	}
	return sha256Of(ctx, view)
}
