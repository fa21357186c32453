package service

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sheaf/internal/durable"
	"sheaf/internal/flock"
)

// Files in the data directory with the service's secrets. Only their owner can read them.
const (
	receiptKeyFile = "receipt.key"
	tokenFile      = "operator.token"
	tokenSize      = 32 // bytes
)

// secret reads n hexadecimal bytes from a file. If there is no such file, it makes one, durably,
// with random bytes.
func secret(file string, n int) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err == nil {
		b, err := hex.DecodeString(strings.TrimSpace(string(text)))
		if err != nil || len(b) != n {
			return nil, fmt.Errorf("%s: not %d hexadecimal bytes; restore it from a backup", file, n)
		}
		return b, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	b := make([]byte, n)
	rand.Read(b)
	// Durably: if it were lost after its first use, the next start would make another one.
	return b, durable.WriteSecret(file, []byte(hex.EncodeToString(b)+"\n"))
}

// receiptKey returns the key that signs receipts. All processes of a service use the same one.
// Robots learn its public half when they join, so it must be in the backup. The first process
// writes the public half into the database. A new key is only made if the database has none.
func receiptKey(ctx context.Context, control *sql.DB, data string) (_ ed25519.PrivateKey, err error) {
	lock, err := lockKeys(data)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	file := filepath.Join(data, receiptKeyFile)
	known, err := knownKey(ctx, control)
	if err != nil {
		return nil, err
	}
	_, err = os.Stat(file)
	made := errors.Is(err, fs.ErrNotExist)
	if made && known != nil {
		return nil, fmt.Errorf("settings: data: %q has no %s, and robots know one by this database; copy it there from another process or from a backup (tar xzf BACKUP -C %s %s), or give all processes one database.seal, first the one that has it",
			data, receiptKeyFile, data, receiptKeyFile)
	}
	seed, err := secret(file, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	public := []byte(key.Public().(ed25519.PublicKey))
	_, err = control.ExecContext(ctx, `INSERT INTO service_key (id, public) VALUES (1, ?) ON CONFLICT (id) DO NOTHING`, public)
	if err != nil {
		return nil, fmt.Errorf("the service's key: %w", err)
	}
	if known, err = knownKey(ctx, control); err != nil {
		return nil, err
	}
	if !bytes.Equal(public, known) {
		if made { // another process, with another directory, was faster
			if err := durable.Remove(file); err != nil {
				return nil, fmt.Errorf("the service's key: %w", err)
			}
		}
		return nil, fmt.Errorf("settings: data: %q holds another %s than the one that robots know by this database; copy that of another process or of a backup there",
			data, receiptKeyFile)
	}
	return key, nil
}

// lockKeys keeps other processes that share the data directory from making the keys at the same
// time.
func lockKeys(data string) (io.Closer, error) {
	f, err := os.OpenFile(filepath.Join(data, "keys.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("settings: data: %w", err)
	}
	if err := flock.Lock(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("settings: data: lock %s: %w", f.Name(), err)
	}
	return f, nil
}

// knownKey returns the public half of the key in the database, or nil if there is none.
func knownKey(ctx context.Context, control *sql.DB) (public []byte, err error) {
	err = control.QueryRowContext(ctx, `SELECT public FROM service_key`).Scan(&public)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("the service's key: %w", err)
	}
	return public, nil
}

// Token returns the operators' token of the service in a data directory. If there is none, it
// makes one.
func Token(data string) (_ string, err error) {
	lock, err := lockKeys(data)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	b, err := secret(filepath.Join(data, tokenFile), tokenSize)
	return hex.EncodeToString(b), err
}

// ReadToken returns the operators' token of a service that has been started before.
func ReadToken(data string) (string, error) {
	b, err := os.ReadFile(filepath.Join(data, tokenFile))
	return strings.TrimSpace(string(b)), err
}
