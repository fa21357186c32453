package urlindex

import "sheaf/internal/cache"

// part names a page or a block of a run.
type part struct {
	run    string
	page   bool
	number int64
}

// readCache keeps parts of runs. All views of one Reader share it.
type readCache = cache.Cache[part]

func newCache(limit int64) *readCache { return cache.New[part](limit) }
