// Package servicekey keeps the keys with which a service signs receipts, hand-overs and links.
//
// One key signs at a time: the one in table service_key. Each process asks the database for the
// current key before it signs. So one transaction changes the key of all processes, and no process
// signs with an old key. A process that cannot get the private half signs nothing.
//
// A rotation has two steps. Announce makes the next key, and the old key signs a wire.KeyStatement
// about it; robots learn the next key while the old one still signs. Use makes the next key sign.
// Both may be repeated after a crash. Replace is for a stolen key, whose statements prove nothing:
// robots cannot follow such a change by themselves.
//
// # Links
//
// LinkSigner signs links that need no log-in: anybody who has the link may open it. The secret of a
// LinkSigner is derived from the service's key, so no signature is stored.
package servicekey

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
)

// ErrNoneAnnounced says that there is no next key, because Announce was not called.
var ErrNoneAnnounced = errors.New("there is no next key; sheaf key rotate makes one")

// Signing is the current key, with which the service signs.
type Signing struct {
	Number  int64
	Private ed25519.PrivateKey
}

// Public returns the public key, by which others verify the service's signatures.
func (s Signing) Public() ed25519.PublicKey { return s.Private.Public().(ed25519.PublicKey) }

// Signer returns the current key. It may be used concurrently. Call Signing again for each
// signature, since the key may have changed.
type Signer interface {
	Signing(ctx context.Context) (Signing, error)
}

// Fixed is a Signer with one key, which is never replaced.
type Fixed ed25519.PrivateKey

// Signing returns the key with number 1.
func (f Fixed) Signing(context.Context) (Signing, error) {
	return Signing{1, ed25519.PrivateKey(f)}, nil
}

// Keeper keeps private keys in a place that all signing processes of the service can read.
type Keeper interface {
	// Make makes a key, stores it durably under the number and returns it. If the number has a key
	// already, from an interrupted call, Make returns that key.
	Make(ctx context.Context, number int64) (ed25519.PrivateKey, error)
	// Load returns the key of the number. It returns an error unless the key is the private half of
	// public.
	Load(ctx context.Context, number int64, public ed25519.PublicKey) (ed25519.PrivateKey, error)
	// Drop destroys the key of the number, if there is one.
	Drop(ctx context.Context, number int64) error
}

// Ring holds the keys of a service. It may be used concurrently, also by several processes.
type Ring struct {
	db     *sql.DB
	keeper Keeper

	mu     sync.Mutex // guards loaded
	loaded Signing    // the key of the last call of Signing
}

// New returns the Ring of the keys in d, which internal/db has opened. The first key must have been
// entered: see EnterFirst.
func New(d *sql.DB, keeper Keeper) *Ring { return &Ring{db: d, keeper: keeper} }

// Signing returns the key that signs. When a new key has come into use, Signing destroys the
// earlier ones.
func (r *Ring) Signing(ctx context.Context) (Signing, error) {
	number, public, err := signing(ctx, r.db)
	if err != nil {
		return Signing{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loaded.Number == number && r.loaded.Public().Equal(public) {
		return r.loaded, nil
	}
	private, err := r.keeper.Load(ctx, number, public)
	if err != nil {
		return Signing{}, fmt.Errorf("the service's key %d: %w", number, err)
	}
	for old := int64(1); old < number; old++ {
		if err := r.keeper.Drop(ctx, old); err != nil {
			return Signing{}, fmt.Errorf("the service's former key %d: %w", old, err)
		}
	}
	r.loaded = Signing{number, private}
	return r.loaded, nil
}

// signing returns the number and the public half of the key that signs.
func signing(ctx context.Context, q db.Queryer) (number int64, public ed25519.PublicKey, err error) {
	keys, err := List(ctx, q)
	if err != nil {
		return 0, nil, err
	}
	for _, k := range keys {
		if k.Signs {
			return k.Number, k.Public, nil
		}
	}
	return 0, nil, errors.New("the database has no key of the service")
}

// Key is the public part of a key.
type Key struct {
	Number    int64
	Public    ed25519.PublicKey
	Made      time.Time
	Used      time.Time // when the key began to sign; zero: not yet
	Signs     bool
	Signature []byte // signature of the wire.KeyStatement that announces the key; nil: there is none
	Proof     []byte // proof of that statement
}

// List returns all keys of a service, in their order.
func List(ctx context.Context, q db.Queryer) ([]Key, error) {
	keys, err := db.List(ctx, q, func(rows *sql.Rows, k *Key) error {
		return rows.Scan(&k.Number, (*[]byte)(&k.Public), db.At(&k.Made), db.At(&k.Used), &k.Signature, &k.Proof, &k.Signs)
	}, `SELECT number, public, made, used, signature, proof, EXISTS (SELECT 1 FROM service_key s WHERE s.public = k.public) FROM service_keys k ORDER BY number`)
	if err != nil {
		return nil, fmt.Errorf("the service's keys: %w", err)
	}
	return keys, nil
}

// EnterFirst enters the service's first key, unless it has one.
func EnterFirst(ctx context.Context, d *sql.DB, public ed25519.PublicKey) error {
	err := db.Transact(ctx, d, nil, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO service_key (id, public) VALUES (1, ?) ON CONFLICT (id) DO NOTHING`, []byte(public)); err != nil {
			return err
		}
		keys, err := List(ctx, tx)
		if err != nil || len(keys) > 0 {
			return err
		}
		now := db.Millis(time.Now())
		_, err = tx.ExecContext(ctx, `INSERT INTO service_keys (number, public, made, used) SELECT 1, public, ?, ? FROM service_key`, now, now)
		return err
	})
	if err != nil {
		return fmt.Errorf("the service's key: %w", err)
	}
	return nil
}

// Known returns the public half of the key that signs, and its number. If there is no key yet, they
// are nil and 1.
func Known(ctx context.Context, d *sql.DB) (public ed25519.PublicKey, number int64, err error) {
	err = d.QueryRowContext(ctx, `SELECT public, COALESCE((SELECT number FROM service_keys k WHERE k.public = s.public), 1) FROM service_key s`).
		Scan((*[]byte)(&public), &number)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, 0, fmt.Errorf("the service's key: %w", err)
	}
	return public, max(number, 1), nil
}

// Announce makes the next key, unless there is one already, and signs a statement about it with the
// current key. The current key goes on signing.
func (r *Ring) Announce(ctx context.Context) error {
	now, err := r.Signing(ctx)
	if err != nil {
		return err
	}
	keys, err := List(ctx, r.db)
	if err != nil {
		return err
	}
	number := keys[len(keys)-1].Number + 1
	if number > now.Number+1 {
		return nil
	}
	private, err := r.keeper.Make(ctx, number)
	if err != nil {
		return fmt.Errorf("the service's key %d: %w", number, err)
	}
	public := private.Public().(ed25519.PublicKey)
	s := wire.StateNextKey(number, public, now.Private)
	return r.change(ctx, keys, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO service_keys (number, public, made, signature) VALUES (?, ?, ?, ?)`,
			number, []byte(public), db.Millis(time.Now()), s.Signature)
		return err
	})
}

// change changes the keys by f in one transaction. It returns an error if the keys are no longer
// those in from.
func (r *Ring) change(ctx context.Context, from []Key, f func(*sql.Tx) error) error {
	err := db.Transact(ctx, r.db, nil, func(tx *sql.Tx) error {
		keys, err := List(ctx, tx)
		if err != nil {
			return err
		}
		same := len(keys) == len(from)
		for i := 0; same && i < len(keys); i++ {
			same = keys[i].Signs == from[i].Signs && bytes.Equal(keys[i].Public, from[i].Public)
		}
		if !same {
			return errors.New("they have been changed just now; sheaf key ls shows them")
		}
		return f(tx)
	})
	if err != nil {
		return fmt.Errorf("the service's keys: %w", err)
	}
	return nil
}

// Use makes the next key the current one, in all processes from their next signature on. The former
// key is destroyed. Without a next key Use returns ErrNoneAnnounced.
func (r *Ring) Use(ctx context.Context) error {
	keys, err := List(ctx, r.db)
	if err != nil {
		return err
	}
	next := keys[len(keys)-1]
	if next.Signs {
		return ErrNoneAnnounced
	}
	private, err := r.keeper.Load(ctx, next.Number, next.Public)
	if err != nil {
		return fmt.Errorf("the service's key %d: %w", next.Number, err)
	}
	s := wire.KeyStatement{Number: next.Number, Key: next.Public}
	s.Prove(private)
	err = r.change(ctx, keys, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE service_keys SET used = ?, proof = ? WHERE number = ?`, db.Millis(time.Now()), s.Proof, next.Number)
		if err == nil {
			_, err = tx.ExecContext(ctx, `UPDATE service_key SET public = ?`, []byte(next.Public))
		}
		return err
	})
	if err != nil {
		return err
	}
	_, err = r.Signing(ctx)
	return err
}

// Replace makes a new key the current one at once, without a statement by an earlier key, because
// the current key was stolen. It drops an announced key.
func (r *Ring) Replace(ctx context.Context) error {
	keys, err := List(ctx, r.db)
	if err != nil {
		return err
	}
	number := keys[len(keys)-1].Number + 1
	if err := r.keeper.Drop(ctx, number); err != nil { // a key from an interrupted call may be stolen, too
		return fmt.Errorf("the service's key %d: %w", number, err)
	}
	private, err := r.keeper.Make(ctx, number)
	if err != nil {
		return fmt.Errorf("the service's key %d: %w", number, err)
	}
	public := []byte(private.Public().(ed25519.PublicKey))
	err = r.change(ctx, keys, func(tx *sql.Tx) error {
		now := db.Millis(time.Now())
		_, err := tx.ExecContext(ctx, `INSERT INTO service_keys (number, public, made, used) VALUES (?, ?, ?, ?)`, number, public, now, now)
		if err == nil {
			_, err = tx.ExecContext(ctx, `UPDATE service_key SET public = ?`, public)
		}
		return err
	})
	if err != nil {
		return err
	}
	_, err = r.Signing(ctx)
	return err
}

// Path is a key's place among the service's keys.
type Path struct {
	Number int64 // of the key; 0: the service does not know it
	Newest int64
	Whole  bool // statements lead from the key to the newest
	Chain  []wire.KeyStatement
}

// Find returns a key's Path. keys must be in the order of List.
func Find(keys []Key, public []byte) (p Path) {
	for _, k := range keys {
		p.Newest = k.Number
		switch {
		case bytes.Equal(k.Public, public):
			p.Number, p.Whole = k.Number, true
		case p.Number == 0:
			continue
		case k.Signature == nil:
			p.Whole = false
		}
		if k.Signature != nil {
			p.Chain = append(p.Chain, wire.KeyStatement{Number: k.Number, Key: k.Public, Signature: k.Signature, Proof: k.Proof})
		}
	}
	if !p.Whole {
		p.Chain = nil
	}
	p.Chain = p.Chain[:min(len(p.Chain), wire.MaxKeyStatements)]
	return p
}

// LinkSigner signs links of one purpose. It may be used by many goroutines at once.
type LinkSigner struct{ secret []byte }

// NewLinkSigner returns a signer with a secret for the purpose, derived from the service's key
// (HKDF, RFC 5869).
func NewLinkSigner(service ed25519.PrivateKey, purpose string) *LinkSigner {
	secret, err := hkdf.Key(sha256.New, service.Seed(), nil, "sheaf link: "+purpose, sha256.Size)
	if err != nil {
		panic(err) // the length is allowed
	}
	return &LinkSigner{secret}
}

// Sign returns the signature of a link with these parts: 26 lower-case letters and digits, 130
// bits.
func (s *LinkSigner) Sign(parts ...string) string {
	mac := hmac.New(sha256.New, s.secret)
	for _, p := range parts { // with their lengths, so that parts cannot run into each other
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		mac.Write([]byte(p))
	}
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(mac.Sum(nil))
	return strings.ToLower(text[:26])
}

// Check reports whether the signature is that of the parts. It compares in constant time.
func (s *LinkSigner) Check(signature string, parts ...string) bool {
	return hmac.Equal([]byte(signature), []byte(s.Sign(parts...)))
}
