package service

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
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

// sealSize is the length in bytes of database.seal, an AES-256 key.
const sealSize = 32

// secretFiles keeps the service's secrets in files of the data directory. Only their owner can read
// them. With database.seal the secrets are the same in all processes, which each have a directory
// of their own: each secret also lies in the database, sealed by a key that only the processes
// have. The first process puts its secret there. Every later process gets the secret from there.
type secretFiles struct {
	db  *sql.DB
	cfg Config
}

// get returns the secret of n bytes that is kept under a name. If there is none, get makes one,
// durably. fits reports whether the directory's secret may be the service's, or a new one if it is
// nil; it is not asked if the database has the secret. If the secret does not fit, get returns nil.
func (s secretFiles) get(ctx context.Context, name string, n int, fits func(secret []byte) bool) (key []byte, err error) {
	lock, err := lockKeys(s.cfg.Data)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	file := filepath.Join(s.cfg.Data, name)
	have, err := readSecret(file, n)
	if err != nil {
		return nil, err
	}
	var seal cipher.AEAD // nil: without database.seal
	if s.cfg.Database.Seal != "" {
		if seal, err = newSeal(s.cfg.Database.Seal); err != nil {
			return nil, fmt.Errorf("settings: database.seal: %w", err)
		}
		if key, err = s.read(ctx, seal, name); err != nil {
			return nil, err
		}
	}
	if key == nil {
		if !fits(have) {
			return nil, nil
		}
		if key = have; key == nil {
			key = make([]byte, n)
			rand.Read(key)
		}
		if seal != nil {
			if key, err = s.add(ctx, seal, name, key); err != nil {
				return nil, err
			}
		}
	}
	if have == nil { // if the file were lost after its first use, the next start would make another secret
		return key, files.WriteSecret(file, []byte(hex.EncodeToString(key)+"\n"))
	}
	if !bytes.Equal(have, key) {
		return nil, fmt.Errorf("settings: data: %q holds another %s than the database (table sealed_keys): move it away, and the start fetches the shared one",
			s.cfg.Data, name)
	}
	return key, nil
}

// readSecret returns the n bytes that a file has in hexadecimal, or nil if there is no such file.
func readSecret(file string, n int) ([]byte, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(b) != n {
		return nil, fmt.Errorf("%s: not %d hexadecimal bytes; restore it from a backup", file, n)
	}
	return b, nil
}

// lockKeys keeps other processes that share the data directory from making keys until the lock is
// closed.
func lockKeys(data string) (io.Closer, error) {
	f, err := os.OpenFile(filepath.Join(data, "keys.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("settings: data: %w", err)
	}
	if err := files.Lock(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("settings: data: lock %s: %w", f.Name(), err)
	}
	return f, nil
}

// token returns the operators' token, and makes it if there is none. With database.seal, a process
// that needs no signing key cannot know whether the installation already has a token, so it makes
// none.
func (s secretFiles) token(ctx context.Context) (string, error) {
	key, err := s.get(ctx, tokenFile, tokenSize, func([]byte) bool {
		return s.cfg.Database.Seal == "" || s.cfg.has(roleManager, roleIngest)
	})
	if err == nil && key == nil {
		err = fmt.Errorf("settings: database.seal: the database has no %s yet; start a process first that manages or ingests, with the same database.seal", tokenFile)
	}
	return hex.EncodeToString(key), err
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

// read returns a key from the database, or nil if the database has no key of this name.
func (s secretFiles) read(ctx context.Context, seal cipher.AEAD, name string) (key []byte, err error) {
	var sealed []byte
	err = s.db.QueryRowContext(ctx, `SELECT sealed FROM sealed_keys WHERE name = ?`, name).Scan(&sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s in the database: %w", name, err)
	}
	key, err = seal.Open(nil, nil, sealed, []byte(name))
	if err != nil {
		return nil, fmt.Errorf("settings: database.seal: does not open %s in the database (table sealed_keys): give the one that sealed it; "+
			"if that is lost, delete the table's rows and start first where %s is in the data directory or restored from a backup", name, name)
	}
	return key, nil
}

// add puts a key into the database, unless another process was faster. It returns the key there.
func (s secretFiles) add(ctx context.Context, seal cipher.AEAD, name string, key []byte) ([]byte, error) {
	sealed := seal.Seal(nil, nil, key, []byte(name))
	_, err := s.db.ExecContext(ctx, `INSERT INTO sealed_keys (name, sealed) VALUES (?, ?) ON CONFLICT (name) DO NOTHING`, name, sealed)
	if err != nil {
		return nil, fmt.Errorf("%s in the database: %w", name, err)
	}
	return s.read(ctx, seal, name)
}
