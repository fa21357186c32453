package robotd

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// zeros is endless.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestZerosDoNotCostABatch: a site answers with more zeros than the service lets a host's part of a
// batch decode to. The page is cut and counted, the batch is verified as ingest does it, other
// pages come whole, and the page is not taken for one that is known.
func TestZerosDoNotCostABatch(t *testing.T) {
	testkit.Long(t) // it stores and verifies some 320 MiB
	t.Parallel()
	const size, host = wire.Grace + 80<<20, "www.zeros.test"
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			linkTo(w, 3)
		case "/0.html":
			w.Header().Set("ETag", `"zeros"`)
			w.Header().Set("Content-Type", "application/octet-stream")
			_, _ = io.CopyN(w, zeros{}, size)
		case "/robots.txt":
			http.NotFound(w, r)
		default:
			_, _ = io.WriteString(w, "page "+r.URL.Path)
		}
	}))
	t.Cleanup(web.Close)
	s := newService(t, "http://"+host+"/")
	cfg := testConfig(t, s, map[string]string{host: web.Listener.Addr().String()})
	cfg.Page.MaxBytes, cfg.Batch.Level = wire.MaxBody, 1 // zeros deflate best by this level
	r, err := New(cfg, testLog(t))
	testkit.Must(t, err)
	defer r.Close()
	testkit.Must(t, r.Cycle(t.Context()))
	front, err := r.records.Frontier.Host(host)
	testkit.Must(t, err)
	if v, known, err := front.Visit("http://" + host + "/0.html"); err != nil || known && (v.ETag != "" || v.Digest != "") {
		t.Errorf("the page that was cut is known as %+v, %v", v, err)
	}
	testkit.Must(t, r.Drain(t.Context())) // the service verifies it
	cells := s.cells(0, host)
	zero := cells["http://"+host+"/0.html"]
	if zero.Kind != archive.Page || zero.Truncated != "length" || zero.BodyLen < wire.Grace/2 || zero.BodyLen >= size || len(cells) != 4 {
		t.Errorf("%d pages; %d bytes of %d were kept, truncated %q", len(cells), zero.BodyLen, int64(size), zero.Truncated)
	}
	for _, c := range s.batches[0].manifest.Coverage {
		if c.Host == host && (c.Truncated["length"] != 1 || c.Collected != 4) {
			t.Errorf("%+v", c)
		}
	}
}
