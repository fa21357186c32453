package foreign

import (
	"archive/tar"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"sheaf/internal/testkit"
)

// reportCPU begins to measure the processors' time; the returned function reports it.
func reportCPU(b *testing.B) func() {
	before := used(b)
	return func() { b.ReportMetric(float64((used(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op") }
}

// BenchmarkConvert converts WARCs of 16 MB, one member for all or one for each record:
//
//	go test -run '^$' -bench Convert -benchtime 3x ./ingest/foreign
//
// MB/s are inflated ones; cpu-ms is what all processors together had to do.
func BenchmarkConvert(b *testing.B) {
	var records []string
	size := 0
	r := rand.New(rand.NewPCG(1, 1))
	for n := 0; size < 16<<20; n++ {
		var body strings.Builder
		for body.Len() < 2_000 {
			fmt.Fprintf(&body, "<p>%x says that page %d is %d\n", r.Uint64(), n, r.IntN(1000))
		}
		records = append(records, rec("1.1", "response", fmt.Sprintf("http://h%d.example.jp/%d", n%20, n), answer, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"+body.String()))
		size += len(records[n])
	}
	for form, data := range map[string]string{"one member": gz(strings.Join(records, "")), "a member a record": gz(records...)} {
		name := filepath.Join(b.TempDir(), "foreign")
		testkit.Must(b, os.WriteFile(name, []byte(data), 0o600))
		b.Run(form, func(b *testing.B) {
			b.SetBytes(int64(size))
			defer reportCPU(b)()
			for b.Loop() {
				f, err := os.Open(name)
				testkit.Must(b, err)
				_, err = Convert(b.Context(), f, io.Discard, Options{Robot: "import", Dir: b.TempDir()})
				testkit.Must(b, err)
				testkit.Must(b, f.Close())
			}
		})
	}
}

// BenchmarkTinyEntries converts a tar of 100,000 files of a byte each.
func BenchmarkTinyEntries(b *testing.B) {
	name := filepath.Join(b.TempDir(), "foreign")
	f, err := os.Create(name)
	testkit.Must(b, err)
	defer f.Close()
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	for n := range 100_000 {
		testkit.Must(b, w.WriteHeader(&tar.Header{Name: fmt.Sprintf("www.example.jp/%d/%d.html", n%100, n), Mode: 0o644, Size: 1}))
		_, err := io.WriteString(w, "x")
		testkit.Must(b, err)
	}
	testkit.Must(b, w.Close())
	testkit.Must(b, z.Close())
	defer reportCPU(b)()
	for b.Loop() {
		_, err := Convert(b.Context(), f, io.Discard, Options{Robot: "import", Dir: b.TempDir()})
		testkit.Must(b, err)
	}
}
