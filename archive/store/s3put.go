package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
)

const (
	maxS3Put   = 5 << 30         // limit of S3 for one PUT, in bytes
	minS3Part  = 5 << 20         // least size of all parts but the last, in bytes
	maxS3Parts = 10000           // limit of S3 for one object
	lookFirst  = 1 << 20         // size in bytes from which Put first asks whether the key is taken
	abortTime  = 5 * time.Second // for cancelling a failed upload
)

// putHeader is the metadata field in which each Put stores a random number with its object. If the
// answer was lost, the number tells whether a stored object is this Put's own.
const putHeader = "x-amz-meta-put"

// ifAbsent returns the condition and options of every write. It avoids minio's own multipart
// upload, which drops the condition when it joins the parts, and its trailing checksums, which some
// services reject.
func ifAbsent(id string, size int64) minio.PutObjectOptions {
	o := minio.PutObjectOptions{
		DisableMultipart:     true,
		UserMetadata:         map[string]string{putHeader: id},
		DisableContentSha256: size == 0, // otherwise minio sends a signature as the body
	}
	o.SetMatchETagExcept("*")
	return o
}

// Put implements Store. It does not use r after it has returned.
func (s *S3) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	if err := s.check(ctx, key); err != nil {
		return s.failed("put", key, err)
	}
	if size < 0 {
		return s.failed("put", key, fmt.Errorf("size %d: %w", size, ErrSize))
	}
	if size >= lookFirst {
		if _, err := s.Stat(ctx, key); err == nil {
			return s.failed("put", key, ErrExists)
		}
	}
	body := &exactReader{ctx: ctx, r: r, size: size}
	id := rand.Text()
	err := s.send(ctx, key, body, id)
	if whole, broken := body.close(); broken != nil {
		err = broken // the service got only a part of the body, so it stored nothing
	} else if err != nil {
		err = s.settle(ctx, key, id, whole, err)
	}
	return s.failed("put", key, err)
}

// settle finds out whether a failed Put has stored its object, if the answer does not say it. A
// service that refuses early closes the connection before it has read the body, and then its answer
// is often lost. A 409 may mean that another put or delete was going on. settle returns err if the
// outcome stays unknown.
func (s *S3) settle(ctx context.Context, key, id string, whole bool, err error) error {
	status := minio.ToErrorResponse(err).StatusCode
	if status != 0 && status != http.StatusConflict && status < http.StatusInternalServerError {
		return err
	}
	o, absent := s.core.Client.StatObject(ctx, s.bucket, s.prefix+key, minio.StatObjectOptions{})
	if absent != nil {
		return err
	}
	switch found := o.Metadata.Get(putHeader); {
	case found == id:
		return nil
	case found != "" || !whole:
		return ErrExists
	}
	return err
}

func (s *S3) send(ctx context.Context, key string, body *exactReader, id string) error {
	switch {
	case body.size == 0:
		if err := body.end(); err != nil {
			return err
		}
	case body.size > s.maxPut:
		return s.sendParts(ctx, key, body, id)
	}
	_, err := s.core.Client.PutObject(ctx, s.bucket, s.prefix+key, body, body.size, ifAbsent(id, body.size))
	return err
}

// onlyCondition returns the options for joining parts. The upload already carries putHeader.
func onlyCondition() (o minio.PutObjectOptions) {
	o.SetMatchETagExcept("*")
	return o
}

// sendParts uploads the body in parts, one after another, and joins them if the key is free.
func (s *S3) sendParts(ctx context.Context, key string, body *exactReader, id string) (err error) {
	name := s.prefix + key
	upload, err := s.core.NewMultipartUpload(ctx, s.bucket, name, minio.PutObjectOptions{UserMetadata: map[string]string{putHeader: id}})
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			return
		}
		// If the upload was joined after all, its ID is no longer valid, so this harms no object.
		// Parts that stay are left to the bucket's expiry rules.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
		defer cancel()
		_ = s.core.AbortMultipartUpload(ctx, s.bucket, name, upload)
	}()
	partSize := min(s.maxPut, max(minS3Part, (body.size+maxS3Parts-1)/maxS3Parts, s.maxPut/64))
	var parts []minio.CompletePart
	for off := int64(0); off < body.size; off += partSize {
		n := min(partSize, body.size-off)
		part, err := s.core.PutObjectPart(ctx, s.bucket, name, upload, len(parts)+1, io.LimitReader(body, n), n, minio.PutObjectPartOptions{})
		if err != nil {
			return err
		}
		parts = append(parts, minio.CompletePart{PartNumber: part.PartNumber, ETag: part.ETag})
	}
	_, err = s.core.CompleteMultipartUpload(ctx, s.bucket, name, upload, parts, onlyCondition())
	return err
}

// exactReader reads exactly size bytes of r. If r holds fewer or more, it fails before the last
// byte: then the request is cut short and stores nothing.
type exactReader struct {
	ctx  context.Context
	size int64

	mu   sync.Mutex // guards the fields below, and keeps r unused after close
	r    io.Reader
	done int64 // bytes returned
	err  error // why no more can be read
}

var errClosed = errors.New("put has returned")

func (b *exactReader) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = b.ctx.Err()
	}
	if b.err != nil {
		return 0, b.err
	}
	if b.done == b.size {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.size-b.done)])
	if b.done+int64(n) == b.size && (err == nil || err == io.EOF) {
		err = b.atEnd()
	} else if err == io.EOF {
		err = fmt.Errorf("declared %d bytes, got %d: %w", b.size, b.done+int64(n), ErrSize)
	}
	if err != nil {
		b.err = err
		return 0, err
	}
	b.done += int64(n)
	return n, nil
}

// end checks that a body of size 0 is empty.
func (b *exactReader) end() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = b.atEnd()
	return b.err
}

// atEnd fails unless r has no more bytes.
func (b *exactReader) atEnd() error {
	n, err := io.ReadFull(b.r, make([]byte, 1))
	switch {
	case n > 0:
		return fmt.Errorf("declared %d bytes, got more: %w", b.size, ErrSize)
	case err == io.EOF:
		return nil
	default:
		return err
	}
}

// close waits for a running Read and ends the use of r. It returns whether all was read, and the
// error if reading failed.
func (b *exactReader) close() (whole bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	err = b.err
	b.err = errClosed
	return b.done == b.size, err
}
