package urlindex

import "sheaf/internal/bytecache"

// part names a page or a block of a run.
type part struct {
	run    string
	page   bool
	number int64
}

// cache keeps parts of runs. All views of one Reader share it.
type cache = bytecache.Cache[part]

func newCache(limit int64) *cache { return bytecache.New[part](limit) }
