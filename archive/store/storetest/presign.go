package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"sheaf/archive/store"
	"sheaf/internal/testkit"
)

// presign tests a store that is a Presigner.
func presign(t *testing.T, s store.Store) {
	p, ok := store.AsPresigner(s)
	if !ok {
		t.Skip("this store gives no URLs of its objects")
	}
	data := random(1 << 20)
	put(t, s, "a/b+c.bin", data)
	put(t, s, "a/other.bin", []byte("not for this client"))
	u, err := p.Presign(t.Context(), "a/b+c.bin", store.PresignOptions{Expires: time.Minute, Type: "application/gzip", Disposition: `attachment; filename="a b.gz"`})
	testkit.Must(t, err)
	header, body := fetch(t, u, "", http.StatusOK)
	if !bytes.Equal(body, data) {
		t.Errorf("by its URL the object has %d bytes, and other ones than the %d stored", len(body), len(data))
	}
	if header.Get("Content-Type") != "application/gzip" || header.Get("Content-Disposition") != `attachment; filename="a b.gz"` {
		t.Errorf("the answer's header is %v", header)
	}
	if _, part := fetch(t, u, "bytes=1000-1999", http.StatusPartialContent); !bytes.Equal(part, data[1000:2000]) {
		t.Error("a range by the URL has other bytes than the object")
	}
	other := *u
	other.Path = u.Path[:len(u.Path)-len("b+c.bin")] + "other.bin"
	other.RawPath = ""
	fetch(t, &other, "", http.StatusForbidden)
	if _, err := p.Presign(t.Context(), "../a", store.PresignOptions{Expires: time.Minute}); !errors.Is(err, store.ErrKey) {
		t.Errorf("a URL of a bad key: %v", err)
	}
	if testing.Short() {
		return // the rest waits for a second to pass
	}
	short, err := p.Presign(t.Context(), "a/b+c.bin", store.PresignOptions{Expires: time.Second})
	testkit.Must(t, err)
	testkit.Eventually(t, "the URL expires", func() error {
		resp, err := http.Get(short.String())
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			return fmt.Errorf("%s", resp.Status)
		}
		return nil
	})
}

// fetch reads a URL as a client without credentials does, and checks the answer's status.
func fetch(t *testing.T, u *url.URL, span string, want int) (http.Header, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u.String(), nil)
	testkit.Must(t, err)
	if span != "" {
		req.Header.Set("Range", span)
	}
	resp, err := http.DefaultClient.Do(req)
	testkit.Must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	if resp.StatusCode != want {
		t.Errorf("GET of %s, range %q: %s %.300s", u.Path, span, resp.Status, body)
	}
	return resp.Header, body
}
