// Package cache keeps computed values. Cache is an LRU cache with a limit in bytes. It wraps
// golang-lru, which limits the number of entries.
//
// Group lets concurrent callers share one computation.
package cache
