package service

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
)

// claim marks the store as this installation's, or returns an error if the store belongs to another
// installation. Two installations that publish into one catalog would take each other's batches for
// unknown and collect each other's objects. With database.fresh, which makes a new installation
// with old archives, claim takes the store over.
func claim(ctx context.Context, cfg Config, d *sql.DB, objects store.Store) error {
	var first []byte // the first key stays in the database, whichever key signs now
	if err := d.QueryRowContext(ctx, `SELECT public FROM service_keys WHERE number = 1`).Scan(&first); err != nil {
		return fmt.Errorf("the service's first key: %w", err)
	}
	sum := sha256.Sum256(first)
	own := hex.EncodeToString(sum[:]) + "\n"
	named, err := owner(ctx, objects)
	if errors.Is(err, store.ErrNotExist) {
		err = objects.Put(ctx, catalog.OwnerKey, strings.NewReader(own), int64(len(own)))
		if errors.Is(err, store.ErrExists) { // another process, of this service or of another, was faster
			return claim(ctx, cfg, d, objects)
		}
		return err
	}
	switch {
	case err != nil:
		return err
	case named == own:
		return nil
	case cfg.Database.Fresh:
		if err := objects.Delete(ctx, catalog.OwnerKey); err != nil {
			return err
		}
		return claim(ctx, cfg, d, objects)
	}
	return fmt.Errorf("settings: store: %s belongs to another installation (its object %q names another first key than the database has): "+
		"is it the right store, and the right database? To give the store to this installation, start once with --set database.fresh=true",
		cfg.storeName(), catalog.OwnerKey)
}

// owner returns the name of the installation that the store belongs to.
func owner(ctx context.Context, objects store.Store) (string, error) {
	r, err := objects.Open(ctx, catalog.OwnerKey, 0, -1)
	if err != nil {
		return "", err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, 1000))
	return string(text), err
}
