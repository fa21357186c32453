package robotd

import (
	"compress/gzip"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/robotd/config"
)

// TestPagesOfUnverifiedServers: a page of a server whose certificate does not verify is in the
// batch with a mark, or not at all if the setting says so.
func TestPagesOfUnverifiedServers(t *testing.T) {
	t.Parallel()
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "page")
	}))
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	t.Cleanup(web.Close)
	const page = "https://www.self.test/"
	for verify, collected := range map[string]bool{config.TLSRecord: true, config.TLSRefuse: false} {
		t.Run(verify, func(t *testing.T) {
			t.Parallel()
			s := newService(t, page)
			cfg := testConfig(t, s, map[string]string{"www.self.test": web.Listener.Addr().(*net.TCPAddr).String()})
			cfg.TLS.Verify, cfg.Page.Tries, cfg.Interval = verify, 1, interval/20
			r, err := New(cfg, testLog(t))
			testkit.Must(t, err)
			defer r.Close()
			testkit.Must(t, r.Cycle(t.Context()))
			status, err := r.status(0)
			testkit.Must(t, err)
			header := ""
			if collected {
				header = spooledWARC(t, r)
			}
			testkit.Must(t, r.Drain(t.Context()))
			if !collected {
				if len(s.batches) != 0 || status.Coverage.Unverified != 0 {
					t.Errorf("a page was collected: %d batches, %+v", len(s.batches), status.Coverage)
				}
				return
			}
			cells := s.cells(0, "www.self.test")
			if len(cells) != 1 || status.Coverage.Unverified != 1 {
				t.Fatalf("%v, %+v", slices.Collect(maps.Keys(cells)), status.Coverage)
			}
			if c := cells[page]; c.Kind != archive.Page || !strings.Contains(header, "\r\nX-Crawler-Certificate: ") {
				t.Errorf("%+v, stored as\n%s", c, header)
			}
		})
	}
}

// spooledWARC returns the first batch in the spool as a WARC file.
func spooledWARC(t *testing.T, r *Robot) string {
	t.Helper()
	spool, err := r.records.Batches.Spool()
	testkit.Must(t, err)
	if len(spool) == 0 {
		t.Fatal("the spool is empty")
	}
	m, err := wire.PeekManifest(spool[0].Signed)
	testkit.Must(t, err)
	f, err := os.Open(spool[0].Path)
	testkit.Must(t, err)
	defer f.Close()
	var parts []archive.Part
	for _, h := range m.Hosts {
		sum, err := archive.VerifyRange(io.NewSectionReader(f, h.Offset, h.Length), archive.VerifyOptions{Host: h.Name})
		testkit.Must(t, err)
		source := archive.FileSource(f, h.Offset)
		idx, err := archive.ReadIndexAt(t.Context(), source, sum.IndexOffset, sum.IndexLength)
		testkit.Must(t, err)
		parts = append(parts, archive.Part{Source: source, Index: idx})
	}
	view, err := archive.NewView(archive.WARC, parts)
	testkit.Must(t, err)
	packed, err := view.OpenRange(t.Context(), 0, view.Size())
	testkit.Must(t, err)
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	testkit.Must(t, err)
	text, err := io.ReadAll(z)
	testkit.Must(t, err)
	return string(text)
}
