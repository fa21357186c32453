package serve

import (
	"context"

	"sheaf/internal/transfers"
)

// Recorder is told of every download that ended, whole or broken off. It may be
// called from many goroutines at once; transfers.Log is one.
type Recorder interface {
	Record(ctx context.Context, t transfers.Transfer) error
}
