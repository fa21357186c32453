package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/ingest/upkeep"
)

// Kinds of stores.
const (
	storeFS = "fs"
	storeS3 = "s3"
)

// storeOpening bounds how long a start waits for a service of objects.
const storeOpening = 30 * time.Second

// Store is where objects lie: the archives and the catalog.
type Store struct {
	// Kind is fs, a directory below Data, or s3, a bucket of a service that
	// speaks S3 and honours "If-None-Match: *" on writes. The others are for s3.
	Kind string `mapstructure:"kind"`
	// Endpoint is the service's URL, such as https://s3.example.jp:9000.
	Endpoint string `mapstructure:"endpoint"`
	// Bucket must exist.
	Bucket string `mapstructure:"bucket"`
	// Prefix is what the names of all objects begin with, so that several archives share a bucket.
	Prefix string `mapstructure:"prefix"`
	// Region is the bucket's.
	Region string `mapstructure:"region"`
	// CA is a PEM file of the authorities that vouch for the endpoint; empty: the system's.
	CA string `mapstructure:"ca"`
	// AccessKey and SecretKey are the credentials. The secret may lie in a file
	// instead. Where there are none, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY
	// in the environment hold them, or ~/.aws/credentials.
	AccessKey     string `mapstructure:"access_key"`
	SecretKey     string `mapstructure:"secret_key"`
	SecretKeyFile string `mapstructure:"secret_key_file"`
	// Reads and Writes are how many operations of each kind may run at once.
	Reads  int `mapstructure:"reads"`
	Writes int `mapstructure:"writes"`
	// Attempts is how often an operation is tried that fails for no fault of its own.
	Attempts int `mapstructure:"attempts"`
}

// check names the settings that cannot be. What can be seen only at the service OpenStore tells.
func (s *Store) check(bad func(key string, value any, why string) error) []error {
	var errs []error
	switch s.Kind {
	case storeFS:
		if s.Endpoint != "" || s.Bucket != "" {
			errs = append(errs, bad("store.kind", s.Kind, "takes no store.endpoint and no store.bucket; want s3"))
		}
		return errs
	case storeS3:
	default:
		return append(errs, bad("store.kind", s.Kind, "is no kind of store; want fs or s3"))
	}
	if !strings.HasPrefix(s.Endpoint, "http://") && !strings.HasPrefix(s.Endpoint, "https://") {
		errs = append(errs, bad("store.endpoint", s.Endpoint, "is no URL, such as https://s3.example.jp:9000"))
	}
	if s.Bucket == "" {
		errs = append(errs, bad("store.bucket", s.Bucket, "names no bucket"))
	}
	if p := strings.Trim(s.Prefix, "/"); p != "" && store.CheckKey(p) != nil {
		errs = append(errs, bad("store.prefix", s.Prefix, "cannot begin the names of objects"))
	}
	if s.SecretKey != "" && s.SecretKeyFile != "" {
		errs = append(errs, bad("store.secret_key_file", s.SecretKeyFile, "and store.secret_key are both given"))
	}
	if (s.AccessKey == "") != (s.SecretKey == "" && s.SecretKeyFile == "") {
		errs = append(errs, bad("store.access_key", s.AccessKey, "needs store.secret_key or store.secret_key_file, and the other way round"))
	}
	for key, n := range map[string]int{"store.reads": s.Reads, "store.writes": s.Writes, "store.attempts": s.Attempts} {
		if n < 1 {
			errs = append(errs, bad(key, n, "is less than 1"))
		}
	}
	return errs
}

// Objects is the store of a service, metered.
type Objects struct {
	store.Store
	meter *store.Meter
	under io.Closer
}

// Unwrap implements store.Wrapper.
func (o *Objects) Unwrap() store.Store { return o.Store }

// Usages is what was done to the store since it was opened, each attempt counted.
func (o *Objects) Usages() store.Usages { return o.meter.Usages() }

// Close gives up the store.
func (o *Objects) Close() error { return o.under.Close() }

// StoreDir is the directory that holds the store, where one does.
func (c *Config) StoreDir() (dir string, ok bool) {
	return filepath.Join(c.Data, "store"), c.Store.Kind == storeFS
}

// OpenStore opens the store that the settings name. Operations on a service
// across the network are limited, and tried again where they fail; a directory
// needs neither.
func OpenStore(ctx context.Context, cfg Config) (*Objects, error) {
	dir, ok := cfg.StoreDir()
	if !ok {
		return openS3(ctx, cfg.Store, cfg.readOnly())
	}
	objects, err := store.OpenFS(dir)
	if err != nil {
		return nil, err
	}
	meter := store.NewMeter(objects)
	return &Objects{Store: meter, meter: meter, under: objects}, nil
}

// Fsck checks the store that the settings name; see upkeep.Fsck. It returns an error if a data
// directory is missing, so that a wrong name is not taken for an empty archive.
func Fsck(ctx context.Context, cfg Config, deep bool) (_ *catalog.Report, err error) {
	if dir, ok := cfg.StoreDir(); ok {
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("fsck: %w (give the service's data directory with --data)", err)
		}
	}
	objects, err := OpenStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, objects.Close()) }()
	return upkeep.Fsck(ctx, objects, deep)
}

func openS3(ctx context.Context, s Store, readOnly bool) (*Objects, error) {
	opt := store.S3Options{
		Endpoint: s.Endpoint, Bucket: s.Bucket, Prefix: s.Prefix, Region: s.Region,
		AccessKey: s.AccessKey, SecretKey: s.SecretKey, ReadOnly: readOnly,
	}
	if s.SecretKeyFile != "" {
		text, err := os.ReadFile(s.SecretKeyFile)
		if err != nil {
			return nil, fmt.Errorf("settings: store.secret_key_file: %w", err)
		}
		opt.SecretKey = strings.TrimSpace(string(text))
	}
	if s.CA != "" {
		pool, err := authorities("store.ca", s.CA)
		if err != nil {
			return nil, err
		}
		opt.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	ctx, cancel := context.WithTimeout(ctx, storeOpening)
	defer cancel()
	objects, err := store.OpenS3(ctx, opt)
	if err != nil {
		return nil, s.blame(err)
	}
	meter := store.NewMeter(store.NewLimit(objects, s.Reads, s.Writes))
	return &Objects{Store: store.NewRetry(meter, store.RetryOptions{Attempts: s.Attempts}), meter: meter, under: objects}, nil
}

// blame names the setting that an error of the service comes from.
func (s *Store) blame(err error) error {
	for _, c := range []struct {
		is         error
		key, value string
	}{
		{store.ErrUnreachable, "store.endpoint", s.Endpoint},
		{store.ErrNotConditional, "store.endpoint", s.Endpoint},
		{store.ErrBucket, "store.bucket", s.Bucket},
		{store.ErrCredentials, "store.access_key", s.AccessKey},
	} {
		if errors.Is(err, c.is) {
			return fmt.Errorf("settings: %s: %q: %w", c.key, c.value, err)
		}
	}
	return fmt.Errorf("settings: store: %w", err)
}
