package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sheaf/archive/store"
	"sheaf/archive/store/storetest"
	"sheaf/internal/testkit"
)

func openS3(t *testing.T, o store.S3Options) *store.S3 {
	t.Helper()
	s, err := store.OpenS3(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// eachServer runs a test against every program that serves S3.
func eachServer(t *testing.T, test func(t *testing.T, g *storetest.S3Server)) {
	for name, start := range map[string]func(testing.TB) *storetest.S3Server{"versitygw": storetest.StartVersity, "minio": storetest.StartMinIO} {
		t.Run(name, func(t *testing.T) { test(t, start(t)) })
	}
}

func TestS3(t *testing.T) {
	t.Parallel()
	testkit.Slow(t) // -short has TestS3Wrapped
	eachServer(t, func(t *testing.T, g *storetest.S3Server) {
		testStore(t, func(t *testing.T) store.Store { return openS3(t, g.Options(t)) })
	})
}

func TestS3Wrapped(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	g := storetest.StartVersity(t)
	testStore(t, func(t *testing.T) store.Store {
		return store.NewRetry(store.NewMeter(store.NewLimit(openS3(t, g.Options(t)), 8, 8)), quick)
	})
}

// Objects that are sent in parts are put only if the key is free, too.
func TestS3Parts(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	eachServer(t, func(t *testing.T, g *storetest.S3Server) { testParts(t, g.Options(t)) })
}

func testParts(t *testing.T, o store.S3Options) {
	o.MaxPut = 5 << 20
	s := openS3(t, o)
	const size = 6<<20 + 1
	var won atomic.Int64
	var wg sync.WaitGroup
	for i := range byte(3) {
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
		t.Errorf("%d bytes, %v; or they are of several writers", len(got), err)
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

// Two prefixes of one bucket are two separate stores. A listing reads as many pages as it needs.
func TestS3PrefixAndPages(t *testing.T) {
	g := storetest.StartVersity(t)
	o := g.Options(t)
	dir := filepath.Join(g.Root, o.Bucket, "one", "two", "k")
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

// The error of OpenS3 says which option is wrong.
func TestOpenS3Fails(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	eachServer(t, func(t *testing.T, g *storetest.S3Server) {
		o := g.Options(t)
		for name, c := range map[string]struct {
			change func(*store.S3Options)
			want   error
		}{
			"no bucket":   {func(o *store.S3Options) { o.Bucket = "missing" }, store.ErrBucket},
			"bad bucket":  {func(o *store.S3Options) { o.Bucket = "A" }, store.ErrBucket},
			"secret":      {func(o *store.S3Options) { o.SecretKey = "other-secret" }, store.ErrCredentials},
			"access":      {func(o *store.S3Options) { o.AccessKey = "other-access" }, store.ErrCredentials},
			"half a pair": {func(o *store.S3Options) { o.AccessKey = "" }, store.ErrCredentials},
			"nobody":      {func(o *store.S3Options) { o.Endpoint = "http://127.0.0.1:1" }, store.ErrUnreachable},
			"no TLS":      {func(o *store.S3Options) { o.Endpoint = "https://" + g.Address }, store.ErrUnreachable},
			"scheme":      {func(o *store.S3Options) { o.Endpoint = "ftp://localhost" }, nil},
			"prefix":      {func(o *store.S3Options) { o.Prefix = "a/../b" }, store.ErrKey},
		} {
			bad := o
			c.change(&bad)
			_, err := store.OpenS3(t.Context(), bad)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
			bad.ReadOnly = true
			if _, err := store.OpenS3(t.Context(), bad); err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%s, to read only: %v, want %v", name, err, c.want)
			}
		}
	})
}

// A read-only store is opened without any request that writes.
func TestOpenS3ReadOnly(t *testing.T) {
	o := storetest.StartVersity(t).Options(t)
	if err := openS3(t, o).Put(t.Context(), "a", strings.NewReader("x"), 1); err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(o.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { // keeps the Host that was signed
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, r.In.Host
	}}
	reader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			t.Errorf("%s %s", r.Method, r.URL)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	defer reader.Close()
	o.Endpoint, o.ReadOnly = reader.URL, true
	s := openS3(t, o)
	if info, err := s.Stat(t.Context(), "a"); err != nil || info.Size != 1 {
		t.Errorf("%+v, %v", info, err)
	}
}

// Missing credentials are taken from the environment or from the file.
func TestS3CredentialsElsewhere(t *testing.T) {
	o := storetest.StartVersity(t).Options(t)
	access, secret := o.AccessKey, o.SecretKey
	o.AccessKey, o.SecretKey = "", ""
	file := filepath.Join(t.TempDir(), "credentials")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN"} {
		t.Setenv(name, "")
	}
	if _, err := store.OpenS3(t.Context(), o); !errors.Is(err, store.ErrCredentials) {
		t.Errorf("without credentials: %v", err)
	}
	if err := os.WriteFile(file, fmt.Appendf(nil, "[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", access, secret), 0o600); err != nil {
		t.Fatal(err)
	}
	openS3(t, o)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", access)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	openS3(t, o)
}

// proxy makes requests pass a proxy that can change them or drop their answers.
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

// OpenS3 refuses a service that ignores the condition of a write.
func TestS3IgnoredCondition(t *testing.T) {
	o := storetest.StartVersity(t).Options(t)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"d41d8cd98f00b204e9800998ecf8427e"`)
	}))
	defer service.Close()
	o.Endpoint = service.URL
	if _, err := store.OpenS3(t.Context(), o); err == nil || !strings.Contains(err.Error(), "If-None-Match") {
		t.Errorf("opened: %v", err)
	}
}

// When the answer to a Put is lost, Put looks for its object. If that fails too, the outcome is
// unknown; Retry finds it out.
func TestS3LostReply(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	o := storetest.StartVersity(t).Options(t)
	var puts, heads atomic.Int64 // answers still to be dropped
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
		t.Errorf("lost answer that the key is taken: %v", err)
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
