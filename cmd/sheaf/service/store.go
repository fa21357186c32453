package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/ingest/upkeep"
	"sheaf/internal/settings"
)

// Kinds of stores.
const (
	storeFS = "fs"
	storeS3 = "s3"
)

// storeOpening bounds how long a start waits for a service of objects.
const storeOpening = 30 * time.Second

// Store is the settings of the object store. All but Kind are for storeS3.
type Store struct {
	Kind          string `mapstructure:"kind"`     // storeFS: a directory in Data; storeS3: a bucket
	Endpoint      string `mapstructure:"endpoint"` // URL
	Bucket        string `mapstructure:"bucket"`   // must exist
	Prefix        string `mapstructure:"prefix"`   // of all keys
	Region        string `mapstructure:"region"`
	CA            string `mapstructure:"ca"`                      // PEM file with the endpoint's authorities; empty: the system's
	AccessKey     string `mapstructure:"access_key" secret:"yes"` // empty, as the secret: taken from the AWS environment or files
	SecretKey     string `mapstructure:"secret_key" secret:"yes"` // or
	SecretKeyFile string `mapstructure:"secret_key_file"`         // the file that has it
	Reads         int    `mapstructure:"reads"`                   // operations at once
	Writes        int    `mapstructure:"writes"`                  // operations at once
	Attempts      int    `mapstructure:"attempts"`                // of an operation that fails for a passing reason
}

// check checks what can be checked without asking the store.
func (s *Store) check(is *settings.Checks) {
	switch s.Kind {
	case storeFS:
		is.Require(s.Endpoint == "" && s.Bucket == "", "store.kind", s.Kind, "takes no store.endpoint and no store.bucket; want s3")
		return
	case storeS3:
	default:
		is.Require(false, "store.kind", s.Kind, "want fs or s3")
		return
	}
	is.Require(strings.HasPrefix(s.Endpoint, "http://") || strings.HasPrefix(s.Endpoint, "https://"), "store.endpoint", s.Endpoint,
		"want a URL, such as https://s3.example.jp:9000")
	is.Require(s.Bucket != "", "store.bucket", s.Bucket, "want a bucket's name")
	prefix := strings.Trim(s.Prefix, "/")
	is.Require(prefix == "" || store.CheckKey(prefix) == nil, "store.prefix", s.Prefix, "keys of objects cannot begin with it")
	is.Require(s.SecretKey == "" || s.SecretKeyFile == "", "store.secret_key_file", s.SecretKeyFile, "and store.secret_key are both given")
	is.Require((s.AccessKey == "") == (s.SecretKey == "" && s.SecretKeyFile == ""), "store.access_key", s.AccessKey,
		"needs store.secret_key or store.secret_key_file, and the other way round")
	is.Require(s.Reads > 0, "store.reads", s.Reads, wantPositive)
	is.Require(s.Writes > 0, "store.writes", s.Writes, wantPositive)
	is.Require(s.Attempts > 0, "store.attempts", s.Attempts, wantPositive)
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

// LogTo makes the store log its operations. It must be called before the first.
func (o *Objects) LogTo(log *slog.Logger) { o.meter.Log = log }

// Close gives up the store.
func (o *Objects) Close() error { return o.under.Close() }

// StoreDir is the directory that holds the store, where one does.
func (c *Config) StoreDir() (dir string, ok bool) {
	return filepath.Join(c.Data, "store"), c.Store.Kind == storeFS
}

// storeName says for people where the object store is.
func (c *Config) storeName() string {
	if dir, ok := c.StoreDir(); ok {
		return dir
	}
	return c.Store.Endpoint + " " + path.Join(c.Store.Bucket, c.Store.Prefix)
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

// options are those for opening the bucket.
func (s *Store) options() (store.S3Options, error) {
	opt := store.S3Options{
		Endpoint: s.Endpoint, Bucket: s.Bucket, Prefix: s.Prefix, Region: s.Region, AccessKey: s.AccessKey, SecretKey: s.SecretKey,
	}
	if s.SecretKeyFile != "" {
		text, err := os.ReadFile(s.SecretKeyFile)
		if err != nil {
			return opt, fmt.Errorf("settings: store.secret_key_file: %w", err)
		}
		opt.SecretKey = strings.TrimSpace(string(text))
	}
	if s.CA != "" {
		pool, err := authorities("store.ca", s.CA)
		if err != nil {
			return opt, err
		}
		opt.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return opt, nil
}

func openS3(ctx context.Context, s Store, readOnly bool) (*Objects, error) {
	opt, err := s.options()
	if err != nil {
		return nil, err
	}
	opt.ReadOnly = readOnly
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
