package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// s3Connect is how long a connection may take to be made, s3Idle how long an idle
// one is kept, and s3Stall how long one that is in use may bring nothing. Joining
// the parts of a large object is what a service takes longest for.
const (
	s3Connect = 10 * time.Second
	s3Idle    = time.Minute
	s3Stall   = 5 * time.Minute
)

// Errors of OpenS3 that tell which setting is wrong.
var (
	// ErrUnreachable says that nothing answers at the endpoint.
	ErrUnreachable = errors.New("service cannot be reached")
	// ErrBucket says that the service has no such bucket.
	ErrBucket = errors.New("bucket does not exist")
	// ErrCredentials says that there are none, or that the service refuses them.
	ErrCredentials = errors.New("bad credentials")
	// ErrNotConditional says that the service overwrites what exists.
	ErrNotConditional = errors.New("service ignores If-None-Match: it would overwrite objects")
)

// newTransport makes connections that fail where they stall.
func newTransport(config *tls.Config, stall time.Duration) *http.Transport {
	dialer := net.Dialer{Timeout: s3Connect, KeepAlive: s3Idle / 4}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &liveConn{Conn: c, stall: stall}, nil
		},
		TLSClientConfig:     config,
		TLSHandshakeTimeout: s3Connect,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     s3Idle,
		DisableCompression:  true, // bytes are what they are, and their length is checked
	}
}

// liveConn fails once neither direction has moved for stall, as a service that
// hangs, or a network that lost the connection without a word, would have it. A
// body that its reader leaves alone for longer is not read from meanwhile, so it
// does not fail for that.
type liveConn struct {
	net.Conn
	stall time.Duration
}

// Read implements net.Conn.
func (c *liveConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.stall)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write implements net.Conn. It puts off the deadline of a read that waits for
// the answer, too: a large body takes longer to be sent than a service may stall.
func (c *liveConn) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.stall)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	return n, errors.Join(err, c.SetReadDeadline(time.Now().Add(c.stall)))
}

// s3Credentials takes the keys that are given, or else what the environment
// (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN) or the file
// ~/.aws/credentials (AWS_SHARED_CREDENTIALS_FILE, AWS_PROFILE) holds.
func s3Credentials(access, secret string) (*credentials.Credentials, error) {
	if (access == "") != (secret == "") {
		return nil, fmt.Errorf("%w: an access key and a secret key belong together", ErrCredentials)
	}
	if access != "" {
		return credentials.NewStaticV4(access, secret, ""), nil
	}
	c := credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}})
	found, err := c.GetWithContext(nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	if found.AccessKeyID == "" || found.SecretAccessKey == "" {
		return nil, fmt.Errorf("%w: none are set, nor in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, nor in ~/.aws/credentials", ErrCredentials)
	}
	return c, nil
}

// openError names what in the options makes a store unusable.
func openError(err error) error {
	if errors.Is(err, ErrNotConditional) {
		return err
	}
	var answer minio.ErrorResponse
	switch {
	case !errors.As(err, &answer):
		return fmt.Errorf("%w (%w)", ErrUnreachable, err)
	case answer.Code == minio.NoSuchBucket:
		return fmt.Errorf("%w (%w)", ErrBucket, err)
	// The second is versitygw's, with 404.
	case answer.StatusCode == http.StatusForbidden, answer.Code == "XAdminUserNotFound":
		return fmt.Errorf("%w (%w)", ErrCredentials, err)
	}
	return err
}
