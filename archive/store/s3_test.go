package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"sheaf/archive/store"
	"sheaf/archive/store/storetest"
	"sheaf/internal/testneed"
)

// gateway is a running versitygw over a directory.
type gateway struct {
	address string
	root    string
	buckets atomic.Int64
}

func startGateway(t *testing.T) *gateway {
	t.Helper()
	program := testneed.Tool(t, "versitygw")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{address: l.Addr().String(), root: t.TempDir()}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--port", g.address, "--access", "access", "--secret", "secret", "--quiet", "posix", g.root)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("versitygw: %s", out.String())
		}
	})
	for range 200 {
		if c, err := net.Dial("tcp", g.address); err == nil {
			_ = c.Close()
			return g
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("versitygw does not listen")
	return nil
}

// options makes a bucket of its own.
func (g *gateway) options(t *testing.T) store.S3Options {
	t.Helper()
	c, err := minio.New(g.address, &minio.Options{Creds: credentials.NewStaticV4("access", "secret", ""), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	bucket := fmt.Sprintf("bucket-%d", g.buckets.Add(1))
	if err := c.MakeBucket(t.Context(), bucket, minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	return store.S3Options{Endpoint: "http://" + g.address, Bucket: bucket, AccessKey: "access", SecretKey: "secret"}
}

func openS3(t *testing.T, o store.S3Options) *store.S3 {
	t.Helper()
	s, err := store.OpenS3(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestS3(t *testing.T) {
	g := startGateway(t)
	storetest.Run(t, func(t *testing.T) store.Store { return openS3(t, g.options(t)) })
}

func TestS3Wrapped(t *testing.T) {
	g := startGateway(t)
	storetest.Run(t, func(t *testing.T) store.Store {
		return store.NewRetry(store.NewMeter(store.NewLimit(openS3(t, g.options(t)), 8, 8)), quick)
	})
}

// Objects that go in parts are put only where the key is free, too.
func TestS3Parts(t *testing.T) {
	o := startGateway(t).options(t)
	o.MaxPut = 5 << 20
	s := openS3(t, o)
	const size = 12<<20 + 1
	var won atomic.Int64
	var wg sync.WaitGroup
	for i := range byte(6) {
		wg.Go(func() {
			data := bytes.Repeat([]byte{i}, size)
			switch err := s.Put(t.Context(), "big", io.MultiReader(bytes.NewReader(data)), size); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, store.ErrExists):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d writers won, want one", won.Load())
	}
	r, err := s.Open(t.Context(), "big", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil || len(got) != size || !bytes.Equal(got, bytes.Repeat(got[:1], size)) {
		t.Errorf("%d bytes, %v; or of several writers", len(got), err)
	}
	for _, n := range []int{size - 1, size + 1} {
		if err := s.Put(t.Context(), "wrong", bytes.NewReader(make([]byte, n)), size); !errors.Is(err, store.ErrSize) {
			t.Errorf("%d of %d bytes: %v, want %v", n, size, err, store.ErrSize)
		}
		if _, err := s.Stat(t.Context(), "wrong"); !errors.Is(err, store.ErrNotExist) {
			t.Errorf("%d of %d bytes were stored: %v", n, size, err)
		}
	}
}

// Two prefixes of one bucket are two stores, and a listing has as many pages as it needs.
func TestS3PrefixAndPages(t *testing.T) {
	g := startGateway(t)
	o := g.options(t)
	dir := filepath.Join(g.root, o.Bucket, "one", "two", "k")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	const objects = 2500
	for i := range objects {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%04d", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o.Prefix = "/one/two/"
	s := openS3(t, o)
	n := 0
	for info, err := range s.List(t.Context(), "k/", "k/0009") {
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("k/%04d", n+10); info.Key != want {
			t.Fatalf("listed %s, want %s", info.Key, want)
		}
		n++
	}
	if n != objects-10 {
		t.Errorf("%d objects listed, want %d", n, objects-10)
	}
	o.Prefix = "one/tw"
	for info, err := range openS3(t, o).List(t.Context(), "", "") {
		t.Errorf("another prefix lists %v, %v", info, err)
	}
}

func TestOpenS3Fails(t *testing.T) {
	o := startGateway(t).options(t)
	for name, change := range map[string]func(*store.S3Options){
		"no bucket": func(o *store.S3Options) { o.Bucket = "missing" },
		"key":       func(o *store.S3Options) { o.SecretKey = "other" },
		"scheme":    func(o *store.S3Options) { o.Endpoint = "ftp://localhost" },
		"prefix":    func(o *store.S3Options) { o.Prefix = "a/../b" },
	} {
		bad := o
		change(&bad)
		if _, err := store.OpenS3(t.Context(), bad); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}

// proxy stands before the gateway and can change a request, or lose an answer.
func proxy(t *testing.T, o *store.S3Options, change func(*http.Request), lose func(*http.Request) bool) {
	t.Helper()
	target, err := url.Parse(o.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	p := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
			change(r.Out)
		},
		ModifyResponse: func(r *http.Response) error {
			if lose(r.Request) {
				panic(http.ErrAbortHandler)
			}
			return nil
		},
	}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	o.Endpoint = server.URL
}

// A service that takes no notice of the condition is not opened.
func TestS3IgnoredCondition(t *testing.T) {
	o := startGateway(t).options(t)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"d41d8cd98f00b204e9800998ecf8427e"`)
	}))
	defer service.Close()
	o.Endpoint = service.URL
	if _, err := store.OpenS3(t.Context(), o); err == nil || !strings.Contains(err.Error(), "If-None-Match") {
		t.Errorf("opened: %v", err)
	}
}

// The reply to a Put is lost: it finds its own object. If that look fails too the
// outcome is unknown, which Retry settles.
func TestS3LostReply(t *testing.T) {
	o := startGateway(t).options(t)
	var puts, heads atomic.Int64 // replies to lose
	proxy(t, &o, func(*http.Request) {}, func(r *http.Request) bool {
		return r.Method == http.MethodPut && puts.Add(-1) >= 0 || r.Method == http.MethodHead && heads.Add(-1) >= 0
	})
	s := openS3(t, o)
	put := func(s store.Store, key string, losePuts, loseHeads int64) error {
		puts.Store(losePuts)
		heads.Store(loseHeads)
		return s.Put(t.Context(), key, io.MultiReader(strings.NewReader("data")), 4)
	}
	if err := put(s, "a", 1, 0); err != nil {
		t.Errorf("lost reply: %v", err)
	}
	if err := put(s, "a", 1, 0); !errors.Is(err, store.ErrExists) {
		t.Errorf("lost refusal: %v", err)
	}
	if err := put(s, "b", 1, 10); err == nil || errors.Is(err, store.ErrExists) {
		t.Errorf("lost replies: %v", err)
	}
	if err := put(store.NewRetry(s, quick), "c", 1, 1); err != nil {
		t.Errorf("lost replies with retry: %v", err)
	}
	if err := put(store.NewRetry(s, quick), "c", 0, 0); !errors.Is(err, store.ErrExists) {
		t.Errorf("second put: %v", err)
	}
}
