package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"sheaf/archive/store"
	"sheaf/archive/store/storecheck"
)

// checkTime is the most time that a check of a store may take.
const checkTime = time.Minute

// CheckStore checks whether the store that the settings name keeps the promises that Sheaf needs;
// see storecheck.Run. It works below a random prefix, and removes what it has made there.
func CheckStore(ctx context.Context, cfg Config) ([]storecheck.Promise, error) {
	if dir, ok := cfg.StoreDir(); ok {
		return checkDir(ctx, dir)
	}
	return checkS3(ctx, cfg.Store)
}

// CheckStoreAt checks the store at an address: a directory, or http(s)://host/bucket/prefix with
// the credentials of the AWS environment or files.
func CheckStoreAt(ctx context.Context, address string) ([]storecheck.Promise, error) {
	s, isDir, err := storeAt(address)
	switch {
	case err != nil:
		return nil, err
	case isDir:
		return checkDir(ctx, address)
	}
	return checkS3(ctx, s)
}

func checkName() string { return "sheaf-check-" + strings.ToLower(rand.Text()) }

func checkDir(ctx context.Context, dir string) (_ []storecheck.Promise, err error) {
	if _, err := os.Stat(dir); err != nil { // a wrong name must not be taken for an empty store
		return nil, fmt.Errorf("check store: %w", err)
	}
	dir = filepath.Join(dir, checkName())
	objects, err := store.OpenFS(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, objects.Close(), os.RemoveAll(dir)) }()
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	return storecheck.Run(ctx, objects, nil)
}

func checkS3(ctx context.Context, s Store) (_ []storecheck.Promise, err error) {
	opt, err := s.options()
	if err != nil {
		return nil, err
	}
	opt.ReadOnly = true // otherwise OpenS3 would leave an object of its own
	opt.Prefix = path.Join(opt.Prefix, checkName())
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	objects, err := store.OpenS3(ctx, opt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, objects.Close()) }()
	opt.MaxPut = storecheck.PartSize
	parts, err := store.OpenS3(ctx, opt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, parts.Close()) }()
	return storecheck.Run(ctx, objects, parts)
}
