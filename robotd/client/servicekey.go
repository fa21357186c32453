package client

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"time"

	"sheaf/internal/wire"
)

// KeyOverlap is how long a robot accepts what the service's former key has signed, after it has
// learned that the service signs with the next one.
const KeyOverlap = 7 * 24 * time.Hour

// Pinned are the keys by which a robot knows its service, apart from ServerKey. A robot accepts a
// key as the next one only if a key that it has already accepted says so: see PROTOCOL.md of the
// manager.
type Pinned struct {
	// Next comes after ServerKey. Both may sign until the service proves that it signs with Next.
	Next []byte `json:"next_server_key,omitempty"`

	// Old was ServerKey before, and may sign until OldUntil.
	Old      []byte    `json:"old_server_key,omitempty"`
	OldUntil time.Time `json:"old_server_key_until,omitzero"`
}

// ServiceKeys returns the keys with which the service may sign, the newest first. It may be called
// concurrently, as may NewestServiceKey, Follow and LearnReleaseKey.
func (id *Identity) ServiceKeys() []ed25519.PublicKey {
	id.mu.Lock()
	defer id.mu.Unlock()
	keys := []ed25519.PublicKey{id.ServerKey}
	if len(id.Next) > 0 {
		keys = []ed25519.PublicKey{id.Next, id.ServerKey}
	}
	if len(id.Old) > 0 && time.Now().Before(id.OldUntil) {
		keys = append(keys, id.Old)
	}
	return keys
}

// NewestServiceKey returns the newest of the service's keys that the robot knows.
func (id *Identity) NewestServiceKey() ed25519.PublicKey { return id.ServiceKeys()[0] }

// trust holds the service's keys while Follow changes them.
type trust struct {
	key    []byte
	number int64 // of key; 0: not known
	Pinned
}

// Follow learns new keys of the service from the statements that lead to them, and keeps them in
// the data folder before the robot uses them. It takes all statements or none. It reports whether
// they changed anything.
func (id *Identity) Follow(dir string, statements []wire.KeyStatement) (changed bool, err error) {
	id.mu.Lock()
	defer id.mu.Unlock()
	was := trust{id.ServerKey, id.KeyNumber, id.Pinned}
	now := was
	for _, s := range statements {
		took, err := now.apply(s)
		if err != nil {
			return false, fmt.Errorf("the service's key %d: %w", s.Number, err)
		}
		changed = changed || took
	}
	if !changed {
		return false, nil
	}
	id.ServerKey, id.KeyNumber, id.Pinned = now.key, now.number, now.Pinned
	if err := id.save(dir); err != nil {
		id.ServerKey, id.KeyNumber, id.Pinned = was.key, was.number, was.Pinned
		return false, err
	}
	return true, nil
}

// apply applies a statement. It reports whether the statement has said anything new.
func (t *trust) apply(s wire.KeyStatement) (changed bool, err error) {
	switch {
	case bytes.Equal(s.Key, t.key):
		return false, nil
	case len(t.Next) == 0 || !bytes.Equal(s.Key, t.Next):
		if err := t.append(s); err != nil {
			return false, err
		}
		changed = true
	case t.number > 0 && s.Number != t.number+1:
		return false, fmt.Errorf("it was number %d before", t.number+1)
	}
	if len(s.Proof) == 0 {
		return changed, nil
	}
	if !s.Proven() {
		return false, fmt.Errorf("the proof that it is in use: %w", wire.ErrSignature)
	}
	t.advance()
	return true, nil
}

// append makes the statement's key the next one.
func (t *trust) append(s wire.KeyStatement) error {
	by, number := t.key, t.number
	if len(t.Next) > 0 {
		by, number = t.Next, number+1
	}
	switch {
	case t.number > 0 && s.Number != number+1:
		return fmt.Errorf("number %d is known, so number %d must follow", number, number+1)
	case !s.SignedBy(by):
		return fmt.Errorf("the statement that it comes next: %w", wire.ErrSignature)
	}
	if len(t.Next) > 0 { // it has signed, so it is in use
		t.advance()
	}
	t.Next, t.number = s.Key, s.Number-1
	return nil
}

// advance makes the next key the one that signs.
func (t *trust) advance() {
	t.Old, t.OldUntil = t.key, time.Now().Add(KeyOverlap).UTC().Truncate(time.Second)
	t.key, t.Next = t.Next, nil
	t.number++
}

// LearnReleaseKey keeps in the data folder the key that releases are signed with.
func (id *Identity) LearnReleaseKey(dir, key string) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	was := id.ReleaseKey
	id.ReleaseKey = key
	err := id.save(dir)
	if err != nil {
		id.ReleaseKey = was
	}
	return err
}
