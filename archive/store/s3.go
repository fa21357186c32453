package store

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/s3utils"
)

// probeName, after the prefix, names an empty object. OpenS3 puts it to learn whether the service
// honours conditional writes. It cannot be a key, since it begins with a dot.
const probeName = ".put-if-absent"

// S3Options say where an S3 store is, and how to use it.
type S3Options struct {
	Endpoint  string // URL of the service, such as https://s3.example.org:9000
	Public    string // URL of the service in presigned URLs for clients; empty: Endpoint
	Bucket    string // must exist
	Prefix    string // of the names of all objects, without the slash behind it; may be empty
	AccessKey string // with SecretKey; if both are empty, they come from the environment or ~/.aws/credentials
	SecretKey string
	Region    string      // us-east-1 if empty
	TLS       *tls.Config // for https endpoints with their own certificate authority; may be nil

	// Through wraps the transport of the requests that the store sends; nil: the transport is used
	// as it is.
	Through func(http.RoundTripper) http.RoundTripper

	// MaxPut is the size in bytes up to which an object is sent in one PUT; larger objects are sent
	// in parts. Zero means 5 GiB, the limit of S3.
	MaxPut int64

	// Stall is how long a connection in use may be silent before it fails. Zero means 5 minutes.
	Stall time.Duration

	// ReadOnly makes OpenS3 skip the trial write. Set it with credentials that may only read.
	ReadOnly bool
}

// S3 is a Store in a bucket of a service that speaks S3 and honours "If-None-Match: *" on writes.
//
// Put is one conditional PUT. Above MaxPut it sends parts, and joins them under the same condition.
// It holds only a buffer of the object in memory. If the answer is lost, Put looks for its own
// object once, but it never repeats the write: use Retry for that. An object is as durable as the
// service makes it before it answers 200.
//
// A key may have at most 1024 bytes including the prefix, the limit of S3; for a longer key,
// operations return ErrKey. In a bucket with versioning, Delete hides an object but does not free
// its bytes.
type S3 struct {
	core   minio.Core
	public *minio.Client // signs URLs for clients, and sends nothing
	http   *http.Transport
	bucket string
	prefix string // empty, or ends with a slash
	maxPut int64
	name   string // of the store, for messages
}

// OpenS3 opens the store. It returns ErrUnreachable, ErrBucket or ErrCredentials, or
// ErrNotConditional if the service overwrites an existing object, since then no object would be
// safe.
func OpenS3(ctx context.Context, o S3Options) (*S3, error) {
	s, err := newS3(o)
	if err != nil {
		return nil, fmt.Errorf("open store %s/%s: %w", o.Endpoint, o.Bucket, err)
	}
	probe := s.probe
	if o.ReadOnly {
		probe = s.look
	}
	if err := probe(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", s.name, openError(err)), s.Close())
	}
	return s, nil
}

func newS3(o S3Options) (*S3, error) {
	u, err := endpoint(o.Endpoint)
	if err != nil {
		return nil, err
	}
	public, err := endpoint(cmp.Or(o.Public, o.Endpoint))
	if err != nil {
		return nil, err
	}
	if err := s3utils.CheckValidBucketName(o.Bucket); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBucket, err)
	}
	prefix := strings.Trim(o.Prefix, "/")
	if prefix != "" {
		if err := CheckKey(prefix); err != nil {
			return nil, fmt.Errorf("prefix: %w", err)
		}
		prefix += "/"
	}
	if o.Region == "" {
		o.Region = "us-east-1"
	}
	if o.MaxPut == 0 {
		o.MaxPut = maxS3Put
	}
	if o.Stall == 0 {
		o.Stall = s3Stall
	}
	keys, err := s3Credentials(o.AccessKey, o.SecretKey)
	if err != nil {
		return nil, err
	}
	transport := newTransport(o.TLS, o.Stall)
	through := http.RoundTripper(transport)
	if o.Through != nil {
		through = o.Through(transport)
	}
	core, err := minio.NewCore(u.Host, &minio.Options{
		Creds:      keys,
		Secure:     u.Scheme == "https",
		Region:     o.Region,
		Transport:  through,
		MaxRetries: 1, // a repeated PUT would find the object of the first try and fail
	})
	if err != nil {
		return nil, err
	}
	signer, err := minio.New(public.Host, &minio.Options{Creds: keys, Secure: public.Scheme == "https", Region: o.Region, Transport: transport})
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(o.Endpoint, "/") + "/" + o.Bucket
	return &S3{core: *core, public: signer, http: transport, bucket: o.Bucket, prefix: prefix, maxPut: o.MaxPut, name: name}, nil
}

// endpoint parses a service's URL: http or https, a host, and no path.
func endpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return nil, fmt.Errorf("endpoint %q: want http:// or https:// and a host", text)
	}
	return u, nil
}

// probe puts the same name twice; the service must refuse the second put. At a later start it
// refuses the first.
func (s *S3) probe(ctx context.Context) error {
	for range 2 {
		_, err := s.core.Client.PutObject(ctx, s.bucket, s.prefix+probeName, strings.NewReader(""), 0, ifAbsent("probe", 0))
		if minio.ToErrorResponse(err).StatusCode == http.StatusPreconditionFailed {
			return nil
		}
		if err != nil {
			return fmt.Errorf("try a conditional write: %w", err)
		}
	}
	return ErrNotConditional
}

// look reads the beginning of a listing, and changes nothing.
func (s *S3) look(ctx context.Context) error {
	for _, err := range s.List(ctx, "", "") {
		return err
	}
	return nil
}

// Close closes idle connections. Open readers remain usable.
func (s *S3) Close() error {
	s.http.CloseIdleConnections()
	return nil
}

// Stat implements Store.
func (s *S3) Stat(ctx context.Context, key string) (Info, error) {
	if err := s.check(ctx, key); err != nil {
		return Info{}, s.failed("stat", key, err)
	}
	o, err := s.core.Client.StatObject(ctx, s.bucket, s.prefix+key, minio.StatObjectOptions{})
	if err != nil {
		return Info{}, s.failed("stat", key, err)
	}
	return Info{Key: key, Size: o.Size, Modified: o.LastModified}, nil
}

// List implements Store. The service returns a page of objects for each request.
func (s *S3) List(ctx context.Context, prefix, after string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		o := minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}
		if after != "" {
			o.StartAfter = s.prefix + after
		}
		last := ""
		for object := range s.core.ListObjectsIter(ctx, s.bucket, o) {
			key, ours := strings.CutPrefix(object.Key, s.prefix)
			switch {
			case object.Err != nil:
				yield(Info{}, s.failed("list", prefix, object.Err))
				return
			case !ours || CheckKey(key) != nil || !strings.HasPrefix(key, prefix) || key <= after:
				continue // the probe, or a foreign object in the bucket
			case key <= last:
				yield(Info{}, s.failed("list", prefix, fmt.Errorf("the service lists %s after %s", key, last)))
				return
			}
			last = key
			if !yield(Info{Key: key, Size: object.Size, Modified: object.LastModified}, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil { // minio ends the listing without an error
			yield(Info{}, s.failed("list", prefix, err))
		}
	}
}

// Delete implements Store.
func (s *S3) Delete(ctx context.Context, key string) error {
	if err := s.check(ctx, key); err != nil {
		return s.failed("delete", key, err)
	}
	err := s.core.RemoveObject(ctx, s.bucket, s.prefix+key, minio.RemoveObjectOptions{})
	if err := s.failed("delete", key, err); err != nil && !errors.Is(err, ErrNotExist) {
		return err
	}
	return nil
}

func (s *S3) check(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := CheckKey(key); err != nil {
		return err
	}
	if n := len(s.prefix) + len(key); n > MaxKey {
		return fmt.Errorf("%w %.64q: %d bytes long with its prefix, at most %d allowed", ErrKey, key, n, MaxKey)
	}
	return nil
}

// failed adds the operation, the store and the key to err, and turns the service's errors into this
// package's. It returns nil for nil.
func (s *S3) failed(op, key string, err error) error {
	if err == nil {
		return nil
	}
	switch answer := minio.ToErrorResponse(err); {
	case errors.Is(err, io.ErrUnexpectedEOF): // the connection ended early: minio gives this no code
	case answer.Code == minio.NoSuchKey:
		err = ErrNotExist
	case answer.StatusCode == http.StatusPreconditionFailed:
		err = ErrExists
	case answer.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		err = ErrRange
	// The first two codes are those of versitygw over a directory.
	case answer.Code == "ExistingObjectIsDirectory", answer.Code == "ObjectParentIsFile", answer.Code == "KeyTooLongError":
		err = fmt.Errorf("%w: %s", ErrKey, answer.Message)
	}
	return fmt.Errorf("%s %s in store %s: %w", op, key, s.name, err)
}

// Open implements Store.
func (s *S3) Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if err := s.check(ctx, key); err != nil {
		return nil, s.failed("open", key, err)
	}
	if off < 0 || n > math.MaxInt64-off {
		return nil, s.failed("open", key, fmt.Errorf("%d bytes from %d: %w", n, off, ErrRange))
	}
	if n == 0 {
		return s.openEmpty(ctx, key, off)
	}
	r, err := s.get(ctx, key, off, n)
	if err := s.failed("open", key, err); err != nil {
		// S3 refuses a range that begins at an object's end; the Store then has an empty reader.
		if n < 0 && errors.Is(err, ErrRange) {
			return s.openEmpty(ctx, key, off)
		}
		return nil, err
	}
	return r, nil
}

// openEmpty returns an empty reader if the object has at least off bytes.
func (s *S3) openEmpty(ctx context.Context, key string, off int64) (io.ReadCloser, error) {
	info, err := s.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	if off > info.Size {
		return nil, s.failed("open", key, fmt.Errorf("from %d, object has %d: %w", off, info.Size, ErrRange))
	}
	return io.NopCloser(strings.NewReader("")), nil
}

// get requests the range and checks that the answer is for it.
func (s *S3) get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	var o minio.GetObjectOptions
	whole := off == 0 && n < 0
	if !whole {
		last := int64(0) // minio takes 0 as the end
		if n > 0 {
			last = off + n - 1
		}
		if err := o.SetRange(off, last); err != nil {
			return nil, err
		}
	}
	body, info, header, err := s.core.GetObject(ctx, s.bucket, s.prefix+key, o)
	if err != nil {
		return nil, err
	}
	if err := checkAnswer(header, info.Size, off, n, whole); err != nil {
		return nil, errors.Join(err, body.Close())
	}
	return &rangeReader{ctx, body, key, info.Size}, nil
}

func checkAnswer(header http.Header, length, off, n int64, whole bool) error {
	if length < 0 {
		return errors.New("the service does not say how long its answer is")
	}
	from := fmt.Sprintf("bytes %d-", off)
	if got := header.Get("Content-Range"); !whole && !strings.HasPrefix(got, from) {
		return fmt.Errorf("asked for bytes from %d, the service gave the range %q", off, got)
	}
	if n > 0 && length != n {
		return fmt.Errorf("%d bytes from %d, object gives %d: %w", n, off, length, ErrRange)
	}
	return nil
}

// Presign implements Presigner.
func (s *S3) Presign(ctx context.Context, key string, o PresignOptions) (*url.URL, error) {
	if err := s.check(ctx, key); err != nil {
		return nil, s.failed("presign", key, err)
	}
	query := url.Values{}
	if o.Type != "" {
		query.Set("response-content-type", o.Type)
	}
	if o.Disposition != "" {
		query.Set("response-content-disposition", o.Disposition)
	}
	u, err := s.public.PresignedGetObject(ctx, s.bucket, s.prefix+key, o.Expires, query)
	return u, s.failed("presign", key, err)
}
