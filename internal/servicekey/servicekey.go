package servicekey

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
)

// ErrNoneAnnounced says that there is no next key that could come into use.
var ErrNoneAnnounced = errors.New("there is no next key; sheaf key rotate makes one")

// Signing is the key that signs now.
type Signing struct {
	Number  int64
	Private ed25519.PrivateKey
}

// Public returns the public half.
func (s Signing) Public() ed25519.PublicKey { return s.Private.Public().(ed25519.PublicKey) }

// Signer tells which key signs. It may be used concurrently. Ask it again for each signature.
type Signer interface {
	Signing(ctx context.Context) (Signing, error)
}

// Fixed is a Signer with one key, which is never replaced.
type Fixed ed25519.PrivateKey

// Signing returns the key as the service's first.
func (f Fixed) Signing(context.Context) (Signing, error) {
	return Signing{1, ed25519.PrivateKey(f)}, nil
}

// Keeper keeps private halves where all processes of the service that sign can get them.
type Keeper interface {
	// Make returns a new key, durably kept under the number. If one was kept before, it returns
	// that: an earlier call did not get to its end.
	Make(ctx context.Context, number int64) (ed25519.PrivateKey, error)
	// Load returns the key of the number, and an error unless it is the private half of public.
	Load(ctx context.Context, number int64, public ed25519.PublicKey) (ed25519.PrivateKey, error)
	// Drop destroys the key of the number, if there is one.
	Drop(ctx context.Context, number int64) error
}

// Ring is the keys of a service. It may be used concurrently, also by several processes.
type Ring struct {
	db     *sql.DB
	keeper Keeper

	mu     sync.Mutex // guards loaded
	loaded Signing    // that signed when it was last asked for
}

// New returns the keys in d, which internal/db has opened. The first one must be there.
func New(d *sql.DB, keeper Keeper) *Ring { return &Ring{db: d, keeper: keeper} }

// Signing returns the key that signs. When a new one has come into use, it destroys those before.
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

// Key is what everybody may know of a key.
type Key struct {
	Number    int64
	Public    ed25519.PublicKey
	Made      time.Time
	Used      time.Time // since when it signs, or signed; zero: not yet
	Signs     bool
	Signature []byte // of the wire.KeyStatement that it comes next; nil: no key has signed one
	Proof     []byte // of that statement
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

// Known returns the public half of the key that signs and its number; nil if there is none yet.
func Known(ctx context.Context, d *sql.DB) (public ed25519.PublicKey, number int64, err error) {
	err = d.QueryRowContext(ctx, `SELECT public, COALESCE((SELECT number FROM service_keys k WHERE k.public = s.public), 1) FROM service_key s`).
		Scan((*[]byte)(&public), &number)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, 0, fmt.Errorf("the service's key: %w", err)
	}
	return public, max(number, 1), nil
}

// Announce makes the next key, unless there is one, and has the key that signs sign a statement
// about it. The key that signs stays the same.
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

// change changes the keys in one transaction, if they still are those that the change follows from.
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

// Use lets the next key sign, in all processes from their next signature on. The former one is
// destroyed.
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

// Replace lets a new key sign at once, without any statement by a key before, since one of them was
// stolen. A key that was announced is dropped.
func (r *Ring) Replace(ctx context.Context) error {
	keys, err := List(ctx, r.db)
	if err != nil {
		return err
	}
	number := keys[len(keys)-1].Number + 1
	if err := r.keeper.Drop(ctx, number); err != nil { // that of a call which did not get to its end may be stolen, too
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

// Path is where a key stands among the service's keys.
type Path struct {
	Number int64 // of the key; 0: the service does not know it
	Newest int64
	Whole  bool // statements lead from the key to the newest
	Chain  []wire.KeyStatement
}

// Find returns the way from a key to the newest one.
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
