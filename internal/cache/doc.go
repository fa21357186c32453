// Package cache keeps what was computed once. Cache is an LRU cache whose limit is in bytes. It
// wraps golang-lru, whose limit is the number of entries.
//
// Group lets concurrent callers share one computation.
package cache
