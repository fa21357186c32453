package passwords

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"sheaf/internal/peer"
	"sheaf/internal/wire"
)

// Numbers of wrong passwords that are allowed at once, and times after which one more is allowed.
const (
	Burst = 10 // of one account from one address
	Every = 6 * time.Second

	AddressBurst = 100 // of all accounts from one address
	AddressEvery = time.Second

	remembered = 1 << 14 // number of remembered addresses, of pairs of account and address, and of right credentials
)

// Realms of names.
const (
	Account  = "account"
	Robot    = "robot"
	Operator = "operator"
	Join     = "join"  // tokens by which robots join, without a name
	Reset    = "reset" // requests to reset a password, each of which counts
)

// Try is one attempt to log in.
type Try struct {
	Realm  string
	Name   string // as the client gave it; it need not exist
	Secret string
	Remote string // the client's address, such as "192.0.2.1:7"
}

// Result says how a try ended, for Limiter.Told.
type Result int

const (
	Wrong Result = iota
	Right
	NotChecked // the password was not checked, since too many before it were wrong
)

// TooMany says that a password was not checked, because too many before it were wrong.
type TooMany struct{ Wait time.Duration } // time until another password is checked

func (e *TooMany) Error() string {
	return fmt.Sprintf("too many wrong passwords from this address; try again in %d seconds", int(math.Ceil(e.Wait.Seconds())))
}

// Problem is the answer for HTTP: 429, with Retry-After.
func (e *TooMany) Problem() wire.Problem {
	next := time.Now().Add(e.Wait + time.Second).UTC().Format(time.RFC3339)
	return wire.Problem{Status: http.StatusTooManyRequests, Reason: "too_many_guesses", Detail: e.Error(), Next: next}
}

// Limiter counts wrong passwords. Its methods may be called from many goroutines at once.
type Limiter struct {
	// Told, if set, is called with each try that was checked or refused. It must not block. Set it
	// before the first try.
	Told func(context.Context, Try, Result)

	log *slog.Logger
	key [sha256.Size]byte // of this process

	mu    sync.Mutex // guards what follows
	pairs *simplelru.LRU[pair, *bucket]
	addrs *simplelru.LRU[netip.Prefix, *bucket]
	right *simplelru.LRU[[sha256.Size]byte, struct{}] // keyed hashes of credentials that were right
}

type pair struct {
	realm, name string
	from        netip.Prefix
}

// NewLimiter makes a limiter that logs each wrong password with its account and address.
func NewLimiter(log *slog.Logger) *Limiter {
	l := &Limiter{log: log}
	rand.Read(l.key[:])
	l.pairs, _ = simplelru.NewLRU[pair, *bucket](remembered, nil) // fails for sizes below 1 only
	l.addrs, _ = simplelru.NewLRU[netip.Prefix, *bucket](remembered, nil)
	l.right, _ = simplelru.NewLRU[[sha256.Size]byte, struct{}](remembered, nil)
	return l
}

// Check calls verify and returns its result. If too many tries were wrong before, it returns
// *TooMany instead. A try for which verify returns an error does not count.
func (l *Limiter) Check(ctx context.Context, t Try, verify func(context.Context) (bool, error)) (bool, error) {
	id := KeyedHash(l.key[:], t.Realm, t.Name, t.Secret)
	p := pair{t.Realm, short(t.Name), peer.Network(peer.Addr(t.Remote))}
	taken, err := l.reserve(ctx, p, id, t.Remote)
	if err != nil {
		l.tell(ctx, t, NotChecked)
		return false, err
	}
	ok, err := verify(ctx)
	switch {
	case err == nil && ok:
		l.tell(ctx, t, Right)
	case err == nil:
		l.tell(ctx, t, Wrong)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil || ok:
		for _, b := range taken {
			b.giveBack(time.Now())
		}
		if ok {
			l.right.Add(id, struct{}{})
		}
		return ok, err
	}
	if l.right.Remove(id) { // the password has changed since, so this one now counts as wrong
		for _, b := range l.buckets(p) {
			b.take(time.Now())
		}
	}
	l.log.WarnContext(ctx, "wrong password", "realm", p.realm, "account", p.name, "remote", t.Remote)
	return false, nil
}

// tell passes the result of a try to Told, if that is set.
func (l *Limiter) tell(ctx context.Context, t Try, r Result) {
	if l.Told != nil {
		l.Told(ctx, t, r)
	}
}

// reserve counts a try before it is checked, and returns the buckets that count it. It does not
// count credentials that were right before. If a bucket is full, it returns a *TooMany.
func (l *Limiter) reserve(ctx context.Context, p pair, id [sha256.Size]byte, remote string) ([]*bucket, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.right.Contains(id) {
		return nil, nil
	}
	now, all := time.Now(), l.buckets(p)
	for _, b := range all {
		if wait := b.wait(now); wait > 0 {
			if !b.told {
				b.told = true
				l.log.WarnContext(ctx, "too many wrong passwords; more are not looked at for now",
					"realm", p.realm, "account", p.name, "remote", remote, "again", wait.Round(time.Second))
			}
			return nil, &TooMany{wait}
		}
	}
	for _, b := range all {
		b.take(now)
	}
	return all, nil
}

// buckets returns the buckets in which a wrong password of the pair counts.
func (l *Limiter) buckets(p pair) []*bucket {
	of, ok := l.pairs.Get(p)
	if !ok {
		of = &bucket{burst: Burst, every: Every}
		l.pairs.Add(p, of)
	}
	from, ok := l.addrs.Get(p.from)
	if !ok {
		from = &bucket{burst: AddressBurst, every: AddressEvery}
		l.addrs.Add(p.from, from)
	}
	return []*bucket{of, from}
}

// bucket counts recent wrong passwords. It forgets one of them in each period of length every.
type bucket struct {
	burst float64
	every time.Duration
	held  float64 // at the time of at
	at    time.Time
	told  bool // the log has a line that the bucket is full, and the bucket was not empty since
}

func (b *bucket) look(now time.Time) float64 {
	if b.held = max(0, b.held-float64(now.Sub(b.at))/float64(b.every)); b.held == 0 {
		b.told = false
	}
	b.at = now
	return b.held
}

// wait returns the time until the bucket has room for one more wrong password; 0 means now.
func (b *bucket) wait(now time.Time) time.Duration {
	return time.Duration(max(0, b.look(now)+1-b.burst) * float64(b.every))
}

func (b *bucket) take(now time.Time)     { b.held = b.look(now) + 1 }
func (b *bucket) giveBack(now time.Time) { b.held = max(0, b.look(now)-1) }

// short cuts a name for logs and tables, since anybody can send names of any length.
func short(name string) string { return name[:min(len(name), 64)] }

// KeyedHash returns the HMAC-SHA-256 of texts, each preceded by its length.
func KeyedHash(key []byte, texts ...string) [sha256.Size]byte {
	mac := hmac.New(sha256.New, key)
	for _, s := range texts {
		fmt.Fprintf(mac, "%d:", len(s))
		io.WriteString(mac, s)
	}
	return [sha256.Size]byte(mac.Sum(nil))
}
