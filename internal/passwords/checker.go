package passwords

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"runtime"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"sheaf/internal/cache"
	"sheaf/internal/peer"
)

// Programs log in with each request and on several connections. So credentials that were right are
// accepted for credentialTTL without another argon2id computation. A new password still takes
// effect at once, since the cache's key includes the stored hash.
const (
	credentialTTL   = 5 * time.Minute
	credentialCache = 4096 // entries
)

// Checker checks passwords against stored hashes. It remembers right credentials for some minutes,
// bounds the memory of the checks that run at once, and shares a check among callers with the same
// credentials. Its methods may be called concurrently.
type Checker struct {
	key      [sha256.Size]byte                        // of this process; never stored
	verified *lru.Cache[[sha256.Size]byte, time.Time] // keyed hash of credentials → accepted until
	checks   cache.Group[bool]
	turns    *Turns // one check a CPU
	decoy    string // hash that is checked for unknown names, which then take as long as known ones
}

// NewChecker returns a checker. The check of an unknown name costs as much as hashing with cost.
func NewChecker(cost Cost) (*Checker, error) {
	verified, err := lru.New[[sha256.Size]byte, time.Time](credentialCache)
	if err != nil {
		return nil, err
	}
	c := &Checker{verified: verified, turns: NewTurns(runtime.GOMAXPROCS(0)), decoy: cost.decoy()}
	rand.Read(c.key[:])
	return c, nil
}

// Check reports whether the secret of a try is the password of the hash phc. An empty phc means
// that the name is not known: then Check returns false after the same time. limit bounds wrong
// passwords: after too many, Check returns a *TooMany. A nil limit bounds nothing.
func (c *Checker) Check(ctx context.Context, limit *Limiter, try Try, phc string) (bool, error) {
	known := phc != ""
	if !known {
		phc = c.decoy
	}
	id := KeyedHash(c.key[:], try.Name, phc, try.Secret)
	if until, ok := c.verified.Get(id); ok && known && time.Now().Before(until) {
		return true, nil
	}
	verify := func(ctx context.Context) (bool, error) {
		done, err := c.turns.Wait(ctx, try.Remote)
		if err != nil {
			return false, err
		}
		defer done()
		ok, err := matches(phc, try.Secret)
		if ok = ok && known; ok {
			c.verified.Add(id, time.Now().Add(credentialTTL))
		}
		return ok, err
	}
	return c.checks.Do(ctx, string(id[:])+peer.Network(peer.Addr(try.Remote)).String(), func(ctx context.Context) (bool, error) {
		if limit == nil {
			return verify(ctx)
		}
		return limit.Check(ctx, try, verify)
	})
}
