package store_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"sheaf/archive/store"
	"sheaf/archive/store/storetest"
)

// BenchmarkStores compares S3 with a directory, and with plain GETs of the same
// service, which are the least that reading from it can cost:
//
//	go test -run '^$' -bench Stores ./archive/store
func BenchmarkStores(b *testing.B) {
	fs, err := store.OpenFS(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer fs.Close()
	o := storetest.StartVersity(b).Options(b)
	s3, err := store.OpenS3(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	defer s3.Close()
	client, err := minio.New(o.Endpoint[len("http://"):], &minio.Options{Creds: credentials.NewStaticV4(o.AccessKey, o.SecretKey, ""), Region: "us-east-1"})
	if err != nil {
		b.Fatal(err)
	}
	for _, size := range []int{16 << 10, 4 << 20} {
		data := bytes.Repeat([]byte("sheaf "), size/6+1)[:size]
		key := fmt.Sprintf("get/%d", size)
		for name, s := range map[string]store.Store{"fs": fs, "s3": s3} {
			b.Run(fmt.Sprintf("put/%d/%s", size, name), func(b *testing.B) {
				b.SetBytes(int64(size))
				run := time.Now().UnixNano()
				for n := 0; b.Loop(); n++ {
					if err := s.Put(b.Context(), fmt.Sprintf("put/%d/%d", run, n), bytes.NewReader(data), int64(size)); err != nil {
						b.Fatal(err)
					}
				}
			})
			if err := s.Put(b.Context(), key, bytes.NewReader(data), int64(size)); err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("get/%d/%s", size, name), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					r, err := s.Open(b.Context(), key, 0, -1)
					drain(b, r, err)
				}
			})
		}
		url, err := client.PresignedGetObject(b.Context(), o.Bucket, key, time.Hour, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("get/%d/http", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				res, err := http.Get(url.String())
				if err == nil && res.StatusCode != http.StatusOK {
					b.Fatal(res.Status)
				}
				if err != nil {
					b.Fatal(err)
				}
				drain(b, res.Body, nil)
			}
		})
	}
}

func drain(b *testing.B, r io.ReadCloser, err error) {
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		b.Fatal(err)
	}
	if err := r.Close(); err != nil {
		b.Fatal(err)
	}
}
