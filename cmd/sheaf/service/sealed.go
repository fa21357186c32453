package service

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sheaf/internal/files"
)

// sealSize is the length in bytes of database.seal, an AES-256 key.
const sealSize = 32

// sealedKeys shares key files between processes that each have a data directory of their own. Each
// key lies in the database, sealed by a key that only the processes have. The first process puts
// its key there, and makes the key if it has none. Every later process gets the key from there.
type sealedKeys struct {
	db   *sql.DB
	data string // directory
	seal cipher.AEAD
}

// shareToken makes the operators' token the same in the data directory and in the database. It does
// nothing without database.seal. A process that needs no signing key cannot know whether the
// installation already has a token, so it puts no token into the database.
func shareToken(ctx context.Context, control *sql.DB, cfg Config) error {
	mayAdd := func([]byte) bool { return cfg.has(roleManager, roleIngest) }
	shared, err := shareKey(ctx, control, cfg, tokenFile, tokenSize, mayAdd)
	if err == nil && !shared {
		err = fmt.Errorf("settings: database.seal: the database has no %s yet; start a process first that manages or ingests, with the same database.seal", tokenFile)
	}
	return err
}

// shareKey makes a file of n hexadecimal bytes the same in the data directory and in the database.
// If the database has no such key, fits reports whether the directory's key may go there; nil
// stands for a new key. shared reports whether the database has the key, or true without
// database.seal.
func shareKey(ctx context.Context, control *sql.DB, cfg Config, name string, n int, fits func(key []byte) bool) (shared bool, err error) {
	if cfg.Database.Seal == "" {
		return true, nil
	}
	seal, err := newSeal(cfg.Database.Seal)
	if err != nil {
		return false, fmt.Errorf("settings: database.seal: %w", err)
	}
	lock, err := lockKeys(cfg.Data)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	k := sealedKeys{db: control, data: cfg.Data, seal: seal}
	return k.share(ctx, name, n, fits)
}

// newSeal returns the cipher for a key of sealSize bytes in hexadecimal. The cipher puts a random
// nonce before each sealed text.
func newSeal(text string) (cipher.AEAD, error) {
	key, err := hex.DecodeString(text)
	if err != nil || len(key) != sealSize { // the error does not show the value, which is a secret
		return nil, fmt.Errorf("want %d hexadecimal bytes, as `openssl rand -hex %d` prints them", sealSize, sealSize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// share is shareKey for callers that hold the lock of the directory's keys.
func (k *sealedKeys) share(ctx context.Context, name string, n int, fits func(key []byte) bool) (shared bool, err error) {
	file := filepath.Join(k.data, name)
	var have []byte
	if _, err = os.Stat(file); err == nil {
		have, err = secret(file, n)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	key, err := k.read(ctx, name)
	if err != nil {
		return false, err
	}
	if key == nil {
		if !fits(have) {
			return false, nil
		}
		first := have
		if first == nil {
			first = make([]byte, n)
			rand.Read(first)
		}
		if key, err = k.add(ctx, name, first); err != nil {
			return false, err
		}
	}
	if have == nil {
		return true, files.WriteSecret(file, []byte(hex.EncodeToString(key)+"\n"))
	}
	if !bytes.Equal(have, key) {
		return true, fmt.Errorf("settings: data: %q holds another %s than the database (table sealed_keys): move it away, and the start fetches the shared one",
			k.data, name)
	}
	return true, nil
}

// read returns a key from the database, or nil if the database has no key of this name.
func (k *sealedKeys) read(ctx context.Context, name string) (key []byte, err error) {
	var sealed []byte
	err = k.db.QueryRowContext(ctx, `SELECT sealed FROM sealed_keys WHERE name = ?`, name).Scan(&sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s in the database: %w", name, err)
	}
	key, err = k.seal.Open(nil, nil, sealed, []byte(name))
	if err != nil {
		return nil, fmt.Errorf("settings: database.seal: does not open %s in the database (table sealed_keys): give the one that sealed it; "+
			"if that is lost, delete the table's rows and start first where %s is in the data directory or restored from a backup", name, name)
	}
	return key, nil
}

// add puts a key into the database, unless another process was faster. It returns the key there.
func (k *sealedKeys) add(ctx context.Context, name string, key []byte) ([]byte, error) {
	sealed := k.seal.Seal(nil, nil, key, []byte(name))
	_, err := k.db.ExecContext(ctx, `INSERT INTO sealed_keys (name, sealed) VALUES (?, ?) ON CONFLICT (name) DO NOTHING`, name, sealed)
	if err != nil {
		return nil, fmt.Errorf("%s in the database: %w", name, err)
	}
	return k.read(ctx, name)
}
