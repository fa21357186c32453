package mirror

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"sheaf/serve/client"
	"sheaf/serve/feed"
)

// remote is a service as a mirror needs it, by whatever protocol. Any number of
// calls may run at once.
type remote interface {
	// changes gives what follows a cursor, and waits for some where there is nothing.
	changes(ctx context.Context, at feed.Cursor, wait time.Duration) (feed.Page, error)
	// open opens a file of the tree from a byte on; from its beginning where it does
	// not have the ETag any more, and the protocol tells.
	open(ctx context.Context, path string, from int64, etag string) (*client.File, error)
	close()
}

// Errors of a remote, beside laterError and refusedError. All others may pass.
var (
	errGone    = errors.New("is not there")
	errExpired = errors.New("the feed is another than the one that was followed")
)

// laterError says that the service asks to come back later.
type laterError struct {
	until time.Time
	why   string
}

func (e *laterError) Error() string { return e.why }

// refusedError says that it is of no use to ask again.
type refusedError struct{ why string }

func (e *refusedError) Error() string { return e.why }

// stall is how long a connection may give nothing.
const stall = time.Minute

// maxText bounds what is read of a MANIFEST, and of a part of the feed, in bytes.
const maxText = 256 << 20

// busyPause is how long to stay away from a service that is busy and does not say for how long.
const busyPause = 30 * time.Second

// dial makes the remote of a URL. It does not speak to it yet.
func dial(ctx context.Context, opt Options) (remote, error) {
	to, err := url.Parse(opt.URL)
	if err != nil {
		return nil, err
	}
	if to.Host == "" {
		return nil, fmt.Errorf("%q names no service: give a URL such as https://archive.example.jp or ftp://archive.example.jp", to.Redacted())
	}
	user, password, err := Credentials(to, opt.User, opt.Password)
	if err != nil {
		return nil, err
	}
	trusted, err := authorities(opt.CAFile)
	if err != nil {
		return nil, err
	}
	switch to.Scheme {
	case "http", "https":
		return newHTTP(to, user, password, trusted, opt), nil
	case "ftp", "ftpes":
		return newFTP(ctx, to, user, password, trusted), nil
	}
	return nil, fmt.Errorf("%q: want http, https, ftp or ftpes", to.Redacted())
}

// authorities reads the certificate authorities that a service's certificate may be of; of no file, nil: the system's.
func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificates", file)
	}
	return pool, nil
}
