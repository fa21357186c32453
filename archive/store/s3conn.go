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

// s3Connect is the time-out for making a connection. s3Idle is how long an idle connection is kept.
// s3Stall is how long a connection in use may be silent; a service is silent longest while it joins
// the parts of a large object.
const (
	s3Connect = 10 * time.Second
	s3Idle    = time.Minute
	s3Stall   = 5 * time.Minute
)

// Errors of OpenS3. Each tells which setting is wrong.
var (
	// ErrUnreachable says that nothing answers at the endpoint.
	ErrUnreachable = errors.New("service cannot be reached")
	// ErrBucket says that the service has no such bucket.
	ErrBucket = errors.New("bucket does not exist")
	// ErrCredentials says that there are no credentials, or that the service refuses them.
	ErrCredentials = errors.New("bad credentials")
	// ErrNotConditional says that the service overwrites existing objects.
	ErrNotConditional = errors.New("service ignores If-None-Match: it would overwrite objects")
)

// newTransport returns a transport whose connections fail if they stall.
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
		DisableCompression:  true, // bytes must arrive as stored, and their length is checked
	}
}

// liveConn is a connection that fails if no byte moves in either direction for the time stall,
// because the service hangs or the network has lost the connection. The clock runs only during a
// Read or a Write: a reader that pauses does not make the connection fail.
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

// Write implements net.Conn. It also extends the deadline of a Read that waits for the answer:
// sending a large body may take longer than stall.
func (c *liveConn) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.stall)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	return n, errors.Join(err, c.SetReadDeadline(time.Now().Add(c.stall)))
}

// s3Credentials returns the given keys. If they are empty, it takes the keys of the environment
// (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN) or of ~/.aws/credentials (see
// AWS_SHARED_CREDENTIALS_FILE and AWS_PROFILE).
func s3Credentials(access, secret string) (*credentials.Credentials, error) {
	if (access == "") != (secret == "") {
		return nil, fmt.Errorf("%w: set both the access key and the secret key, or neither", ErrCredentials)
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
		return nil, fmt.Errorf("%w: set an access key and a secret key, or put them into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or into ~/.aws/credentials", ErrCredentials)
	}
	return c, nil
}

// openError wraps err in the error that says which option is wrong.
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
	// The code is that of versitygw, with status 404.
	case answer.StatusCode == http.StatusForbidden, answer.Code == "XAdminUserNotFound":
		return fmt.Errorf("%w (%w)", ErrCredentials, err)
	}
	return err
}
