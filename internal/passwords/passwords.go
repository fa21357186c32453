// Package passwords hashes and checks the passwords of accounts and operators, with argon2id.
//
// # Guesses
//
// Limiter bounds how fast anybody can guess accounts' names and passwords, over HTTP and FTP, the
// robots' secrets and the operators' token.
//
// A wrong password counts for the pair of its account and the address from which it came. So
// somebody who guesses locks nobody out: the account's owner can log in from other addresses, and
// others from the same address. A password that was right once is accepted even from the same
// address. In addition, the wrong passwords of one address for all accounts together are bounded.
// That stops somebody who tries one password with many names.
//
// A try is counted before its password is checked, and the count is taken back if the password was
// right. So tries that come at the same moment cannot all be checked before the first of them is
// counted.
package passwords

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/crypto/argon2"

	"sheaf/internal/cache"
	"sheaf/internal/peer"
)

// Cost is the memory and the time that argon2id spends on hashing a password. A stored hash
// contains its own cost, so that the cost of new hashes may change.
type Cost struct {
	Memory uint32 // KiB
	Passes uint32 // over the memory
}

// DefaultCost is OWASP's first choice for servers with many log-ins at once.
var DefaultCost = Cost{Memory: 19 << 10, Passes: 2}

const (
	hashThreads = 1
	hashSalt    = 16 // bytes
	hashKey     = 32 // bytes
)

// maxHashMemory bounds the memory, in KiB, that the cost in a stored hash may name.
const maxHashMemory = 256 << 10

// Hash returns the PHC string to store for a password.
func (c Cost) Hash(password string) string {
	salt := make([]byte, hashSalt)
	rand.Read(salt)
	return c.phc(salt, argon2.IDKey([]byte(password), salt, c.Passes, c.Memory, hashThreads, hashKey))
}

// decoy returns a PHC string for which no password is known. Checking a password against it takes
// as long as against a stored one.
func (c Cost) decoy() string {
	random := make([]byte, hashSalt+hashKey)
	rand.Read(random)
	return c.phc(random[:hashSalt], random[hashSalt:])
}

func (c Cost) phc(salt, key []byte) string {
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s",
		argon2.Version, c.Memory, c.Passes, hashThreads, b64(salt), b64(key))
}

// matches reports whether phc is a hash of password.
func matches(phc, password string) (bool, error) {
	fields := strings.Split(phc, "$")
	if len(fields) != 6 || fields[0] != "" || fields[1] != "argon2id" {
		return false, fmt.Errorf("stored password is no argon2id PHC string; set it again")
	}
	var version, memory, time, threads uint32
	if _, err := fmt.Sscanf(fields[2]+"$"+fields[3], "v=%d$m=%d,t=%d,p=%d", &version, &memory, &time, &threads); err != nil {
		return false, fmt.Errorf("stored password's cost %q cannot be read; set it again", fields[3])
	}
	if version != argon2.Version || memory > maxHashMemory || time < 1 || threads < 1 || threads > 255 {
		return false, fmt.Errorf("stored password's cost %q of version %d is out of bounds; set it again", fields[3], version)
	}
	salt, err := base64.RawStdEncoding.DecodeString(fields[4])
	if err != nil {
		return false, fmt.Errorf("stored password's salt: %w", err)
	}
	want, err := base64.RawStdEncoding.DecodeString(fields[5])
	if err != nil || len(want) == 0 {
		return false, fmt.Errorf("stored password's key cannot be read; set it again")
	}
	got := argon2.IDKey([]byte(password), salt, time, memory, uint8(threads), uint32(len(want)))
	return subtle.ConstantTimeCompare(got, want) == 1, nil
}

// New returns a random password of 120 bits.
func New() string { return strings.ToLower(rand.Text())[:24] }

// Lengths of passwords that people choose, in characters.
const (
	LeastChosen = 10
	mostChosen  = 200
)

// CheckChosen returns an error that says why a password is too easy or too long. name is the name
// of the person who has chosen it.
func CheckChosen(name, password string) error {
	switch n := utf8.RuneCountInString(password); {
	case n < LeastChosen:
		return fmt.Errorf("a password needs at least %d characters", LeastChosen)
	case n > mostChosen:
		return fmt.Errorf("a password has at most %d characters", mostChosen)
	case strings.EqualFold(strings.Trim(password, "0123456789!. "), name), strings.Count(password, password[:1]) == len(password):
		return errors.New("this password is the first that somebody would guess")
	}
	return nil
}

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

// Turns bounds how many costly checks of passwords run at once: a number in all, and one for each
// address. So an address with many checks delays another address by at most one of them.
type Turns struct {
	all chan struct{}

	mu     sync.Mutex // guards what follows
	byAddr map[netip.Prefix]*line
}

// line is the queue of one address.
type line struct {
	turn    chan struct{}
	members int // number of clients that wait or have the turn
}

// NewTurns returns Turns that let atOnce checks run at once.
func NewTurns(atOnce int) *Turns {
	return &Turns{all: make(chan struct{}, atOnce), byAddr: make(map[netip.Prefix]*line)}
}

// Wait waits for a client's turn. The caller ends the turn with done. Wait returns an error if ctx
// ends first.
func (t *Turns) Wait(ctx context.Context, remote string) (done func(), err error) {
	from := peer.Network(peer.Addr(remote))
	l := t.join(from)
	if err := enter(ctx, l.turn); err != nil {
		t.leave(from, l)
		return nil, err
	}
	if err := enter(ctx, t.all); err != nil {
		<-l.turn
		t.leave(from, l)
		return nil, err
	}
	return func() {
		<-t.all
		<-l.turn
		t.leave(from, l)
	}, nil
}

func enter(ctx context.Context, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *Turns) join(from netip.Prefix) *line {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.byAddr[from]
	if l == nil {
		l = &line{turn: make(chan struct{}, 1)}
		t.byAddr[from] = l
	}
	l.members++
	return l
}

func (t *Turns) leave(from netip.Prefix, l *line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.members--; l.members == 0 {
		delete(t.byAddr, from)
	}
}
