package service

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sheaf/internal/files"
	"sheaf/internal/servicekey"
)

// Files in the data directory with the service's secrets. Only their owner can read them.
const (
	receiptKeyFile = "receipt.key"
	tokenFile      = "operator.token"
	tokenSize      = 32 // bytes
)

// keyFile returns the name of the file for the service's key with that number.
func keyFile(number int64) string {
	if number == 1 {
		return receiptKeyFile
	}
	return fmt.Sprintf("receipt-%d.key", number)
}

// openKey returns the service's keys, one of which signs. All processes of a service have the same
// keys. Robots learn the signing key's public half when they join, so the key must be in the
// backup. The first process makes the first key, and writes its public half into the database.
func openKey(ctx context.Context, control *sql.DB, cfg Config) (*servicekey.Ring, error) {
	public, number, err := servicekey.Known(ctx, control)
	if err != nil {
		return nil, err
	}
	k := &keyFiles{secretFiles{control, cfg}}
	if public == nil {
		err = k.enterFirst(ctx)
	} else if _, err = k.Load(ctx, number, public); err == nil {
		err = servicekey.EnterFirst(ctx, control, public)
	}
	if err != nil {
		return nil, err
	}
	ring := servicekey.New(control, k)
	_, err = ring.Signing(ctx)
	return ring, err
}

// keyFiles keeps the private halves of the service's keys. It is a servicekey.Keeper.
type keyFiles struct{ secretFiles }

// enterFirst enters the service's first key into the database, and makes it if the data directory
// has none. It fails if another process has entered a different key.
func (k *keyFiles) enterFirst(ctx context.Context) error {
	_, err := os.Stat(filepath.Join(k.cfg.Data, receiptKeyFile))
	made := errors.Is(err, fs.ErrNotExist)
	key, err := k.keep(ctx, 1)
	if err != nil {
		return err
	}
	public := key.Public().(ed25519.PublicKey)
	if err := servicekey.EnterFirst(ctx, k.db, public); err != nil {
		return err
	}
	known, _, err := servicekey.Known(ctx, k.db)
	if err != nil || public.Equal(known) {
		return err
	}
	if made { // another process, with another directory, was faster
		if err := files.Remove(filepath.Join(k.cfg.Data, receiptKeyFile)); err != nil {
			return fmt.Errorf("the service's key: %w", err)
		}
	}
	return k.another(receiptKeyFile)
}

// Make returns a new key. It fails if other processes may share the database but could not read the
// key there, because they would go on with the old one.
func (k *keyFiles) Make(ctx context.Context, number int64) (ed25519.PrivateKey, error) {
	if k.cfg.Database.URL != "" && k.cfg.Database.Seal == "" {
		return nil, errors.New("settings: database.seal: with a PostgreSQL database it must be set in all processes, so that each of them gets the new key")
	}
	return k.keep(ctx, number)
}

// keep returns the key with a number. If there is no such key, keep makes it, durably.
func (k *keyFiles) keep(ctx context.Context, number int64) (ed25519.PrivateKey, error) {
	seed, err := k.get(ctx, keyFile(number), ed25519.SeedSize, func([]byte) bool { return true })
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// Load returns the key with a number. It fails unless the key is the private half of public.
func (k *keyFiles) Load(ctx context.Context, number int64, public ed25519.PublicKey) (ed25519.PrivateKey, error) {
	name := keyFile(number)
	right := func(seed []byte) bool {
		return seed != nil && ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey).Equal(public)
	}
	seed, err := k.get(ctx, name, ed25519.SeedSize, right)
	if err != nil {
		return nil, err
	}
	if right(seed) {
		return ed25519.NewKeyFromSeed(seed), nil
	}
	if _, err := os.Stat(filepath.Join(k.cfg.Data, name)); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("settings: data: %q has no %s, and robots know one by this database; copy it there from another process or from a backup (tar xzf BACKUP -C %s %s), or give all processes one database.seal, first the one that has it",
			k.cfg.Data, name, k.cfg.Data, name)
	}
	return nil, k.another(name)
}

// Drop destroys the key with a number, in the data directory and in the database.
func (k *keyFiles) Drop(ctx context.Context, number int64) error {
	if _, err := k.db.ExecContext(ctx, `DELETE FROM sealed_keys WHERE name = ?`, keyFile(number)); err != nil {
		return err
	}
	err := files.Remove(filepath.Join(k.cfg.Data, keyFile(number)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (k *keyFiles) another(name string) error {
	return fmt.Errorf("settings: data: %q holds another %s than the one that robots know by this database; copy that of another process or of a backup there",
		k.cfg.Data, name)
}

// ReadToken returns the operators' token. The service must have been started before.
func ReadToken(data string) (string, error) {
	b, err := os.ReadFile(filepath.Join(data, tokenFile))
	return strings.TrimSpace(string(b)), err
}
