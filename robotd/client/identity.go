package client

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"sheaf/internal/settings"
	"sheaf/internal/wire"
	"sheaf/robotd/config"
)

// Identity is what the service told the robot when it joined, and the robot's key.
type Identity struct {
	Manager string `json:"manager"` // URLs of the service that was joined, with blanks between
	wire.JoinResponse
	Pinned

	Key ed25519.PrivateKey `json:"-"` // signs manifests

	mu sync.Mutex // guards the service's keys, the release key and File
}

// Files in the data folder.
const (
	File    = "robot.json" // an Identity without its key
	keyFile = "robot.key"
	keyType = "SHEAF ROBOT ED25519 SEED"
)

// Join exchanges a one-time token for credentials, registers the robot's key and keeps both in the
// data folder. manager has the URLs of the service, divided by commas or blanks. If one cannot be
// connected to, Join tries the next; after any other error it does not, since the token may have
// been used. version is the version of the robot's program. Join returns the robot's name.
func Join(ctx context.Context, manager, token, dir, version string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, File)); err == nil {
		return "", fmt.Errorf("join: %s belongs to a robot already; choose another data folder", dir)
	}
	key, err := loadKey(dir)
	if errors.Is(err, os.ErrNotExist) {
		key, err = makeKey(dir)
	}
	if err != nil {
		return "", fmt.Errorf("join: %w", err)
	}
	var id Identity
	var urls []string
	for _, u := range config.SplitList(manager) {
		urls = append(urls, strings.TrimRight(u, "/"))
	}
	id.Manager = strings.Join(urls, " ")
	if err := id.joinAny(ctx, urls, wire.JoinRequest{Token: token, Version: version, PublicKey: key.Public().(ed25519.PublicKey)}); err != nil {
		return "", fmt.Errorf("join: %w", err)
	}
	return id.Robot, id.save(dir)
}

// save writes the identity without its key, which has a file of its own.
func (id *Identity) save(dir string) error {
	data, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	return config.Replace(filepath.Join(dir, File), append(data, '\n'), 0o600)
}

// joinAny joins at the first of the URLs that can be connected to.
func (id *Identity) joinAny(ctx context.Context, urls []string, ask wire.JoinRequest) error {
	errs := []error{errors.New("no service is reached")}
	for _, u := range urls {
		if !settings.IsURL(u, "http", "https") {
			return fmt.Errorf("%q is not an http or https URL", u)
		}
	}
	for _, u := range urls {
		err := id.join(ctx, u, ask)
		if op, ok := errors.AsType[*net.OpError](err); !ok || op.Op != "dial" {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (id *Identity) join(ctx context.Context, manager string, ask wire.JoinRequest) error {
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, manager+wire.PathJoin, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		var p wire.Problem
		_ = json.Unmarshal(data, &p) // the status alone must do where the body says nothing
		return fmt.Errorf("%s answers %s %s %s", manager, resp.Status, p.Title, p.Detail)
	}
	if err := json.Unmarshal(data, &id.JoinResponse); err != nil {
		return fmt.Errorf("%s: answer: %w", manager, err)
	}
	return id.check()
}

// Managers returns the URLs of the manager: the configured ones or, if there are none, those given
// to Join.
func (id *Identity) Managers(configured []string) []string {
	if len(configured) > 0 {
		return configured
	}
	return config.SplitList(id.Manager)
}

func (id *Identity) check() error {
	switch {
	case !wire.ValidRobotName(id.Robot):
		return fmt.Errorf("robot name %q is not a DNS label", id.Robot)
	case id.Secret == "":
		return errors.New("the secret is missing")
	case len(id.ServerKey) != ed25519.PublicKeySize:
		return fmt.Errorf("the service's key has %d bytes, want %d", len(id.ServerKey), ed25519.PublicKeySize)
	case len(id.Next) != 0 && len(id.Next) != ed25519.PublicKeySize || len(id.Old) != 0 && len(id.Old) != ed25519.PublicKeySize:
		return fmt.Errorf("the service's next and former keys have %d and %d bytes, want %d or none", len(id.Next), len(id.Old), ed25519.PublicKeySize)
	}
	return nil
}

// LoadIdentity reads what Join wrote.
func LoadIdentity(dir string) (*Identity, error) {
	path := filepath.Join(dir, File)
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist: join a service first, with robotd join URL TOKEN --data %s", path, dir)
	}
	if err != nil {
		return nil, err
	}
	id := new(Identity)
	if err := json.Unmarshal(data, id); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := id.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if id.Key, err = loadKey(dir); err != nil {
		return nil, err
	}
	return id, nil
}

func makeKey(dir string) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: keyType, Bytes: key.Seed()})
	return key, config.Replace(filepath.Join(dir, keyFile), text, 0o600)
}

func loadKey(dir string) (ed25519.PrivateKey, error) {
	path := filepath.Join(dir, keyFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != keyType || len(block.Bytes) != ed25519.SeedSize {
		return nil, fmt.Errorf("%s is not the key of a robot; restore it, or join anew with another data folder", path)
	}
	return ed25519.NewKeyFromSeed(block.Bytes), nil
}

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
