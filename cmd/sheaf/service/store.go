package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/archive/upkeep"
	"sheaf/internal/certs"
	"sheaf/internal/settings"
)

// Values of store.kind.
const (
	storeFS = "fs"
	storeS3 = "s3"
)

// Limits of the operations that a process may have under way at S3.
const (
	readsAtOnce  = 64
	writesAtOnce = 16
)

// storeOpening is how long a start waits for an object store across the network.
const storeOpening = 30 * time.Second

// Store is the settings of the object store. The fields before Copy, except Kind, are for storeS3.
type Store struct {
	Kind          string `mapstructure:"kind" want:"fs or s3"` // storeFS: a directory in Data; storeS3: a bucket
	Endpoint      string `mapstructure:"endpoint"`             // URL
	Public        string `mapstructure:"public"`               // URL of the endpoint for clients that http.redirect sends there; empty: Endpoint
	Bucket        string `mapstructure:"bucket"`               // must exist
	Prefix        string `mapstructure:"prefix"`               // begins all keys
	Region        string `mapstructure:"region"`
	CA            string `mapstructure:"ca"`                      // PEM file with the endpoint's certificate authorities; empty: the system's
	AccessKey     string `mapstructure:"access_key" secret:"yes"` // if both keys are empty, they are taken from the AWS environment or files
	SecretKey     string `mapstructure:"secret_key" secret:"yes"` // or SecretKeyFile
	SecretKeyFile string `mapstructure:"secret_key_file"`         // file with the secret key

	// The following are for all kinds.
	Copy  string `mapstructure:"copy"` // address of a second copy, in the form of OpenStoreAt; empty: none
	Scrub struct {
		Every time.Duration `mapstructure:"every" want:"at least 0s"` // every object is read and verified once in this time; 0: never
		Rate  int64         `mapstructure:"rate" want:"above 0"`      // most bytes a second that are read for this
	} `mapstructure:"scrub"`
}

// check makes the checks that need no access to the store.
func (s *Store) check(is *settings.Checks) {
	if s.Copy != "" {
		_, _, err := storeAt(s.Copy)
		is.Require(err == nil, "store.copy", s.Copy, "want a directory or http(s)://HOST[:PORT]/BUCKET[/PREFIX]")
	}
	if s.Kind != storeS3 {
		is.Require(s.Endpoint == "" && s.Bucket == "" && s.Public == "", "store.kind", s.Kind, "takes no store.endpoint, store.public or store.bucket; want s3")
		return
	}
	is.Require(settings.IsURL(s.Endpoint, "http", "https"), "store.endpoint", s.Endpoint,
		"want a URL, such as https://s3.example.jp:9000")
	public, err := url.Parse(s.Public)
	is.Require(s.Public == "" || err == nil && public.Host != "" && (public.Scheme == "http" || public.Scheme == "https") && strings.Trim(public.Path, "/") == "",
		"store.public", s.Public, "want a URL without a path, such as https://s3.example.jp")
	is.Require(s.Bucket != "", "store.bucket", s.Bucket, "want a bucket's name")
	prefix := strings.Trim(s.Prefix, "/")
	is.Require(prefix == "" || store.CheckKey(prefix) == nil, "store.prefix", s.Prefix, "keys of objects cannot begin with it")
	is.Require(s.SecretKey == "" || s.SecretKeyFile == "", "store.secret_key_file", s.SecretKeyFile, "and store.secret_key are both given")
	is.Require((s.AccessKey == "") == (s.SecretKey == "" && s.SecretKeyFile == ""), "store.access_key", s.AccessKey,
		"needs store.secret_key or store.secret_key_file, and the other way round")
}

// Objects is the store of a service, with counts of its operations.
type Objects struct {
	store.Store
	meter *store.Meter
	under io.Closer
}

// Unwrap implements store.Wrapper.
func (o *Objects) Unwrap() store.Store { return o.Store }

// Usages returns the store's operations since it was opened. It counts each attempt.
func (o *Objects) Usages() store.Usages { return o.meter.Usages() }

// LogTo makes the store log its operations. Call it before the first operation.
func (o *Objects) LogTo(log *slog.Logger) { o.meter.Log = log }

// Close frees what the store has open. The store must not be used any more.
func (o *Objects) Close() error { return o.under.Close() }

// StoreDir returns the directory that holds the store; ok is false if the store is not in a
// directory.
func (c *Config) StoreDir() (dir string, ok bool) {
	return filepath.Join(c.Data, "store"), c.Store.Kind == storeFS
}

// storeName returns the place of the object store, for people.
func (c *Config) storeName() string {
	if dir, ok := c.StoreDir(); ok {
		return dir
	}
	return c.Store.Endpoint + " " + path.Join(c.Store.Bucket, c.Store.Prefix)
}

// OpenStore opens the store that the settings name. Operations on a remote store are limited in
// number, and repeated if they fail; a directory needs neither.
func OpenStore(ctx context.Context, cfg Config) (*Objects, error) {
	dir, ok := cfg.StoreDir()
	if !ok {
		return openS3(ctx, cfg.Store, cfg.readOnly())
	}
	return makeDir(dir)
}

// Fsck checks the store that the settings name or, unless at is empty, the store at that address;
// see upkeep.Fsck and OpenStoreAt.
func Fsck(ctx context.Context, cfg Config, at string, deep bool) (_ *catalog.Report, err error) {
	objects, err := openExisting(ctx, cfg, at)
	if err != nil {
		return nil, fmt.Errorf("fsck: %w", err)
	}
	defer func() { err = errors.Join(err, objects.Close()) }()
	return upkeep.Fsck(ctx, objects, deep)
}

// storeAt returns where the store at an address lies: the directory, or else the settings of the
// bucket at http(s)://host/bucket/prefix, with the credentials of the AWS environment or files.
func storeAt(address string) (dir string, s Store, err error) {
	if !strings.Contains(address, "://") {
		return address, s, nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", s, err
	}
	bucket, prefix, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	if bucket == "" || u.RawQuery != "" || u.User != nil {
		return "", s, fmt.Errorf("store %s: want a directory or http(s)://HOST[:PORT]/BUCKET[/PREFIX]", u.Redacted())
	}
	s = defaults().Store
	s.Kind, s.Endpoint, s.Bucket, s.Prefix = storeS3, u.Scheme+"://"+u.Host, bucket, prefix
	return "", s, nil
}

// place is storeAt or, if the address is empty, for the store that the settings name.
func (c *Config) place(at string) (dir string, s Store, err error) {
	if at != "" {
		return storeAt(at)
	}
	if dir, ok := c.StoreDir(); ok {
		return dir, s, nil
	}
	return "", c.Store, nil
}

// StorePlace returns where the store that the settings name lies: its directory, or else how its
// bucket is opened. Unless at is empty, it is the store at that address; see OpenStoreAt.
func (c *Config) StorePlace(at string) (dir string, bucket store.S3Options, err error) {
	dir, s, err := c.place(at)
	if err == nil && dir == "" {
		bucket, err = s.options()
	}
	return dir, bucket, err
}

// OpenStoreAt opens the store at an address: a directory, which must exist, or a bucket; see
// storeAt.
func OpenStoreAt(ctx context.Context, address string) (*Objects, error) {
	return openExisting(ctx, Config{}, address)
}

// openExisting opens the store that the settings name or, unless at is empty, the store at that
// address. It fails if the store's directory does not exist, so that a wrong name is not taken for
// an empty store.
func openExisting(ctx context.Context, cfg Config, at string) (*Objects, error) {
	dir, s, err := cfg.place(at)
	if err != nil {
		return nil, err
	}
	if dir == "" {
		return openS3(ctx, s, at == "" && cfg.readOnly())
	}
	if _, err := os.Stat(dir); at == "" && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w (give the service's data directory with --data)", err)
	} else if err != nil {
		return nil, err
	}
	return makeDir(dir)
}

// makeDir opens the store in a directory, and makes the directory if it does not exist.
func makeDir(dir string) (*Objects, error) {
	objects, err := store.OpenFS(dir)
	if err != nil {
		return nil, err
	}
	meter := store.NewMeter(objects)
	return &Objects{Store: meter, meter: meter, under: objects}, nil
}

// Repair repairs the store of the settings from the copy at an address; see upkeep.Repair.
func Repair(ctx context.Context, cfg Config, from string) (_ *upkeep.Repaired, err error) {
	return withCopy(ctx, cfg, from, func(objects, copied *Objects) (*upkeep.Repaired, error) {
		return upkeep.Repair(ctx, objects, copied)
	})
}

// CopyStore copies the store of the settings to the copy at an address; see upkeep.Copy.
func CopyStore(ctx context.Context, cfg Config, to string, prune bool) (_ *upkeep.Copied, err error) {
	return withCopy(ctx, cfg, to, func(objects, copied *Objects) (*upkeep.Copied, error) {
		return upkeep.Copy(ctx, copied, objects, prune)
	})
}

// withCopy opens the store of the settings and its copy at an address, and calls do with both.
func withCopy[T any](ctx context.Context, cfg Config, at string, do func(objects, copied *Objects) (T, error)) (done T, err error) {
	objects, err := openExisting(ctx, cfg, "")
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, objects.Close()) }()
	copied, err := OpenStoreAt(ctx, at)
	if err != nil {
		return done, fmt.Errorf("the copy: %w", err)
	}
	defer func() { err = errors.Join(err, copied.Close()) }()
	return do(objects, copied)
}

// options returns the options for opening the bucket.
func (s *Store) options() (store.S3Options, error) {
	opt := store.S3Options{
		Endpoint: s.Endpoint, Public: s.Public, Bucket: s.Bucket, Prefix: s.Prefix, Region: s.Region, AccessKey: s.AccessKey, SecretKey: s.SecretKey, Through: sendRequestID,
	}
	if err := settings.ReadSecret("store.secret_key_file", s.SecretKeyFile, &opt.SecretKey); err != nil {
		return opt, err
	}
	if s.CA != "" {
		pool, err := certs.Pool(s.CA)
		if err != nil {
			return opt, fmt.Errorf("settings: store.ca: %w", err)
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
	meter := store.NewMeter(store.NewLimit(objects, readsAtOnce, writesAtOnce))
	return &Objects{Store: store.NewRetry(meter, store.RetryOptions{}), meter: meter, under: objects}, nil
}

// blame adds the name of the setting at fault to an error of opening the remote store.
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
