package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"
)

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
