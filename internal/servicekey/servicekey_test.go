package servicekey

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

func TestMain(m *testing.M) { testkit.InMemory(m) }

// memory is a Keeper that outlives the processes of a test. It fails when fail says so, after it
// has done what it was told: as if the process had died then.
type memory struct {
	mu   sync.Mutex // guards keys
	keys map[int64]ed25519.PrivateKey
	fail func(what string) error
}

func newMemory() *memory {
	return &memory{keys: make(map[int64]ed25519.PrivateKey), fail: func(string) error { return nil }}
}

func (m *memory) Make(_ context.Context, number int64) (ed25519.PrivateKey, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keys[number] == nil {
		_, m.keys[number], _ = ed25519.GenerateKey(rand.Reader)
	}
	return m.keys[number], m.fail("make")
}

func (m *memory) Load(_ context.Context, number int64, public ed25519.PublicKey) (ed25519.PrivateKey, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := m.keys[number]
	if key == nil || !key.Public().(ed25519.PublicKey).Equal(public) {
		return nil, fmt.Errorf("there is no such key %d", number)
	}
	return key, m.fail("load")
}

func (m *memory) Drop(_ context.Context, number int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.keys, number)
	return m.fail("drop")
}

// begin returns the database and the keeper of a service with its first key.
func begin(t *testing.T) (*sql.DB, *memory, *Ring) {
	t.Helper()
	d, err := db.Open(t.Context(), dbtest.Source(t))
	testkit.Must(t, err)
	t.Cleanup(func() { d.Close() })
	m := newMemory()
	first, err := m.Make(t.Context(), 1)
	testkit.Must(t, err)
	for range 2 {
		testkit.Must(t, EnterFirst(t.Context(), d, first.Public().(ed25519.PublicKey)))
	}
	return d, m, New(d, m)
}

func wantSigning(t *testing.T, what string, number int64, rings ...*Ring) (key Signing) {
	t.Helper()
	for _, r := range rings {
		var err error
		if key, err = r.Signing(t.Context()); err != nil || key.Number != number {
			t.Fatalf("%s: key %d signs (%v), want %d", what, key.Number, err, number)
		}
	}
	return key
}

// follow walks a chain as a robot does that knows a key, and returns the last key.
func follow(t *testing.T, from ed25519.PublicKey, chain []wire.KeyStatement) ed25519.PublicKey {
	t.Helper()
	for _, s := range chain {
		if !s.SignedBy(from) && !from.Equal(ed25519.PublicKey(s.Key)) {
			t.Fatalf("the key before has not signed the statement about key %d", s.Number)
		}
		from = s.Key
	}
	return from
}

// All processes of a service change over with one transaction, and statements lead from each
// earlier key to the newest. Secret halves that do not sign any more are destroyed.
func TestRotation(t *testing.T) {
	t.Parallel()
	d, m, a := begin(t)
	b := New(d, m)
	first := wantSigning(t, "at first", 1, a, b).Public()
	if err := a.Use(t.Context()); !errors.Is(err, ErrNoneAnnounced) {
		t.Errorf("used a key that there is not: %v", err)
	}
	for n := int64(2); n <= 4; n++ {
		for range 2 {
			testkit.Must(t, a.Announce(t.Context()))
			wantSigning(t, "announced", n-1, a, b)
		}
		testkit.Must(t, b.Use(t.Context()))
		wantSigning(t, "used", n, a, b)
	}
	newest := wantSigning(t, "at last", 4, a).Public()
	keys, err := List(t.Context(), d)
	testkit.Must(t, err)
	for _, k := range keys {
		p := Find(keys, k.Public)
		if p.Number != k.Number || p.Newest != 4 || !p.Whole || !follow(t, k.Public, p.Chain).Equal(newest) {
			t.Errorf("from key %d: %+v", k.Number, p)
		}
		for _, s := range p.Chain {
			if !s.Proven() {
				t.Errorf("key %d is in use, and does not say so", s.Number)
			}
		}
	}
	if len(m.keys) != 1 {
		t.Errorf("%d secret halves are left", len(m.keys))
	}

	testkit.Must(t, a.Announce(t.Context()))
	testkit.Must(t, b.Replace(t.Context()))
	wantSigning(t, "after a theft", 6, a, b)
	if keys, err = List(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	for _, known := range []ed25519.PublicKey{first, newest, keys[4].Public} {
		if p := Find(keys, known); p.Whole || len(p.Chain) > 0 || p.Number == 0 {
			t.Errorf("a stolen key still leads somewhere: %+v", p)
		}
	}
	if p := Find(keys, make([]byte, 32)); p.Number != 0 || p.Whole {
		t.Errorf("a key of another service: %+v", p)
	}
	if len(m.keys) != 1 {
		t.Errorf("%d secret halves are left", len(m.keys))
	}
}

// A process may die after each durable step: the other ones sign as before or as after, never with
// a key that robots do not take, and the same command again brings the rotation to its end.
func TestCrashes(t *testing.T) {
	t.Parallel()
	died := errors.New("died")
	for what, step := range map[string]struct {
		command func(*Ring, context.Context) error
		dies    string
		signs   int64 // after it has died
		in      int64 // after the same again
	}{
		"announced, made":          {(*Ring).Announce, "make", 1, 1},
		"used, former one dropped": {(*Ring).Use, "drop", 2, 2},
		"used, loaded":             {(*Ring).Use, "load", 1, 2},
		"replaced, dropped":        {(*Ring).Replace, "drop", 1, 3},
		"replaced, made":           {(*Ring).Replace, "make", 1, 3},
		"replaced, loaded":         {(*Ring).Replace, "load", 3, 4},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d, m, a := begin(t)
			other := New(d, m)
			first := wantSigning(t, "at first", 1, a, other).Public()
			if what != "announced, made" {
				testkit.Must(t, a.Announce(t.Context()))
			}
			m.fail = func(now string) error {
				if now == step.dies {
					return died
				}
				return nil
			}
			if err := step.command(a, t.Context()); !errors.Is(err, died) {
				t.Fatalf("it did not die: %v", err)
			}
			m.fail = func(string) error { return nil }
			restarted := New(d, m)
			wantSigning(t, "after the death", step.signs, other, restarted)
			if err := step.command(restarted, t.Context()); err != nil && !errors.Is(err, ErrNoneAnnounced) {
				t.Fatal(err)
			}
			now := wantSigning(t, "after the same again", step.in, other, restarted)
			keys, err := List(t.Context(), d)
			testkit.Must(t, err)
			if p := Find(keys, first); p.Whole && !follow(t, first, p.Chain).Equal(keys[len(keys)-1].Public) || p.Whole != (step.in < 3) {
				t.Errorf("from the first key: %+v; now %x signs", p, now.Public())
			}
		})
	}
}

// Of processes that rotate at once, each ends with the same next key, or says that another one was
// faster.
func TestRotationsAtOnce(t *testing.T) {
	t.Parallel()
	d, m, a := begin(t)
	rings := []*Ring{a, New(d, m), New(d, m)}
	for _, do := range []func(*Ring, context.Context) error{(*Ring).Announce, (*Ring).Use} {
		errs := make([]error, len(rings))
		var all sync.WaitGroup
		for i, r := range rings {
			all.Go(func() { errs[i] = do(r, t.Context()) })
		}
		all.Wait()
		done := 0
		for _, err := range errs {
			if err == nil {
				done++
			}
		}
		if done == 0 {
			t.Errorf("none was done: %v", errs)
		}
	}
	wantSigning(t, "in the end", 2, rings...)
	keys, err := List(t.Context(), d)
	testkit.Must(t, err)
	if len(keys) != 2 || len(m.keys) != 1 {
		t.Errorf("%d keys, %d secret halves", len(keys), len(m.keys))
	}
}

// A process that cannot get the key which signs now signs nothing.
func TestNoKeyNoSignature(t *testing.T) {
	t.Parallel()
	d, m, a := begin(t)
	apart := newMemory()
	apart.keys[1] = m.keys[1]
	alone := New(d, apart)
	wantSigning(t, "at first", 1, alone)
	testkit.Must(t, a.Announce(t.Context()))
	wantSigning(t, "announced", 1, alone)
	testkit.Must(t, a.Use(t.Context()))
	if key, err := alone.Signing(t.Context()); err == nil {
		t.Errorf("it signs with key %d", key.Number)
	}
}
