package httpd_test

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/store"
	"sheaf/archive/store/storetest"
	"sheaf/internal/testkit"
	"sheaf/serve/servetest"
)

// BenchmarkAgainstNginx fetches the same file from `sheaf serve` and from nginx in turn, over 1, 8
// and 64 connections. It reports MB/s, requests/s, the slowest in 100, the server's CPU seconds per
// GiB (user and system, of /proc) and the ratios. One file is a stretch of a stored file (members),
// another is put together of stretches while it is sent (tar.gz), and the third is one page of
// 20 KB, inflated and as it is stored. The stored one is also fetched over TLS 1.3, where neither
// server has TLS of the kernel:
//
//	go test -run '^$' -bench AgainstNginx -benchtime 1x ./serve/httpd
//
// SHEAF_BENCH_MIB (16) is roughly the file's size, SHEAF_BENCH_ROUNDS (2) the number of
// repetitions.
func BenchmarkAgainstNginx(b *testing.B) {
	s := servetest.New(b, nil)
	captures := make([]*archive.Record, 8*servetest.Number("SHEAF_BENCH_MIB", 16))
	for i := range captures {
		captures[i] = servetest.Page(fmt.Sprintf("http://%s/%d", host, i), hex(uint64(i), 256<<10), day)
	}
	page := fmt.Sprintf("http://%s/page", host)
	captures = append(captures, servetest.Page(page, hex(1, 20<<10), day))
	s.Publish("20261121", map[string][]*archive.Record{host: captures})
	program, data, twin, root := testkit.Build(b, "sheaf/cmd/sheaf"), filepath.Dir(s.Dir), b.TempDir(), b.TempDir()
	testkit.Must(b, os.CopyFS(twin, os.DirFS(data))) // for another service
	ours := serveSheaf(b, program, data)
	size := map[string]int64{}
	for _, form := range []string{".members.tar.gz", ".tar.gz"} {
		size[form] = mirrorFile(b, ours, edition+form, root)
	}
	page = "/web/" + day.Format("20060102150405") + "id_/" + page
	size["page"] = mirrorFile(b, ours, page, root)
	const inGzip = "Accept-Encoding: gzip\r\n"
	size["gzip"] = sizeOf(b, ours, page, inGzip)
	servers := map[string]*servetest.Process{"sheaf": ours, "nginx": serveNginx(b, root, "", nil)}
	settings, ssl := overTLS(b)
	secure := map[string]*servetest.Process{"sheaf": serveSheaf(b, program, twin, settings...), "nginx": serveNginx(b, root, ssl, nil)}
	for _, p := range []*servetest.Process{ours, secure["sheaf"]} {
		p.Settle(b) // texts are made of what was published
	}
	for b.Loop() {
		compare(b, secure, "tls", edition+".members.tar.gz", size[".members.tar.gz"], 1, 8, 64)
		compare(b, servers, "page", page, size["page"], 1, 8, 64)
		compareAs(b, servers, "gzip", page, inGzip, size["gzip"], size["page"], 1, 8, 64)
		compare(b, servers, "stored", edition+".members.tar.gz", size[".members.tar.gz"], 1, 8, 64)
		compare(b, servers, "computed", edition+".tar.gz", size[".tar.gz"], 1, 8, 64)
	}
}

// BenchmarkThirtySegments fetches all and the newest pages of a host of 30 segments
// in the default view, from `sheaf serve` over local files and over S3 (versitygw), and the same
// files from nginx and, of the same bucket, from `rclone serve http` and from nginx, which passes
// requests on to versitygw:
//
//	go test -run '^$' -bench ThirtySegments -benchtime 1x ./serve/httpd
func BenchmarkThirtySegments(b *testing.B) {
	const segments, pages = 30, 100
	s := servetest.New(b, nil)
	for e := range segments {
		at := day.AddDate(0, 0, e-segments)
		var of []*archive.Record
		for n := range pages {
			url := fmt.Sprintf("http://%s/%d.html", host, n)
			if n%4 > 0 {
				url = fmt.Sprintf("http://%s/%d/%d.html", host, e, n) // of this day alone
			}
			of = append(of, servetest.Page(url, hex(uint64(e*pages+n), 32<<10), at.Add(time.Duration(n)*time.Second)))
		}
		s.Publish(at.Format("20060102"), map[string][]*archive.Record{host: of})
	}
	program, root := testkit.Build(b, "sheaf/cmd/sheaf"), b.TempDir()
	files := serveSheaf(b, program, filepath.Dir(s.Dir))
	versity := storetest.StartVersity(b)
	objects := versity.Options(b)
	copyStore(b, s.Store, objects)
	s3 := serveSheaf(b, program, b.TempDir(), "store.kind=s3", "store.endpoint="+objects.Endpoint, "store.bucket="+objects.Bucket,
		"store.access_key="+objects.AccessKey, "store.secret_key="+objects.SecretKey)
	size := map[string]int64{}
	names := []string{"all", "current"}
	for _, name := range names {
		size[name] = mirrorFile(b, files, filepath.Dir(edition)+"/"+name+".tar.gz", root)
	}
	mirrored, err := store.OpenFS(root)
	testkit.Must(b, err)
	copyStore(b, mirrored, objects)
	bucket, err := store.OpenS3(b.Context(), objects)
	testkit.Must(b, err)
	defer bucket.Close()
	signed := map[string]*url.URL{}
	for name := range size {
		path := filepath.Dir(edition) + "/" + name + ".tar.gz"
		signed[path], err = bucket.Presign(b.Context(), path[1:], store.PresignOptions{Expires: 24 * time.Hour})
		testkit.Must(b, err)
	}
	servers := map[string]*servetest.Process{"sheaf": files, "sheaf over S3": s3, "rclone over S3": serveRclone(b, objects),
		"nginx over S3": serveNginx(b, root, "", signed), "nginx": serveNginx(b, root, "", nil)}
	for _, p := range []*servetest.Process{files, s3} {
		p.Settle(b) // texts are made of what was published
	}
	for b.Loop() {
		for _, name := range names {
			compare(b, servers, name, filepath.Dir(edition)+"/"+name+".tar.gz", size[name], 1, 8)
		}
	}
}

// compare measures servers in turn, with each number of connections, and reports them beside nginx:
// requests a second, the slowest in 100, and CPU.
func compare(b *testing.B, servers map[string]*servetest.Process, what, file string, size int64, connections ...int) {
	compareAs(b, servers, what, file, "", size, size, connections...)
}

// compareAs is compare with a header for `sheaf serve`, which then sends ours bytes.
func compareAs(b *testing.B, servers map[string]*servetest.Process, what, file, header string, ours, size int64, connections ...int) {
	names := []string{"sheaf", "sheaf over S3", "rclone over S3", "nginx over S3", "nginx"}
	names = slices.DeleteFunc(names, func(name string) bool { return servers[name] == nil })
	for _, n := range connections {
		total := map[string]*servetest.Measured{}
		times := max(1, int(512<<20/size)/n)
		for range servetest.Number("SHEAF_BENCH_ROUNDS", 2) {
			for _, name := range names {
				if total[name] == nil {
					total[name] = new(servetest.Measured)
				}
				if name == "sheaf" {
					total[name].Add(fetchAll(b, servers[name], file, header, n, times, ours))
				} else {
					total[name].Add(fetchAll(b, servers[name], file, "", n, times, size))
				}
			}
		}
		nginx, sheaf := total["nginx"], total["sheaf"]
		line := fmt.Sprintf("GET %s (%.0f MB), %d connections:", what, float64(size)/1e6, n)
		for _, name := range names {
			m := total[name]
			line += fmt.Sprintf(" %s %.0f MB/s, %.0f requests/s, slowest in 100 %v, CPU %.3f s/GiB;", name, m.Rate()/1e6, m.Requests(), m.Slow(), m.PerGiB())
		}
		b.Log(line)
		report := func(value float64, figure string) { b.ReportMetric(value, fmt.Sprintf("%s-%d-%s", what, n, figure)) }
		report(sheaf.Requests()/nginx.Requests(), "ratio")
		report(sheaf.CPU.Seconds()/nginx.CPU.Seconds(), "cpu-ratio")
		report(sheaf.Slow().Seconds()/nginx.Slow().Seconds(), "p99-ratio")
		report(float64(sheaf.CPU.Microseconds())/float64(len(sheaf.Each)), "cpu-µs")
		if s3 := total["sheaf over S3"]; s3 != nil {
			report(s3.PerGiB(), "S3-cpu-s/GiB")
			report(s3.PerGiB()/total["rclone over S3"].PerGiB(), "S3-cpu-ratio")
			report(s3.PerGiB()/total["nginx over S3"].PerGiB(), "S3-nginx-cpu-ratio")
		}
	}
}

// copyStore copies all objects of a store to a bucket.
func copyStore(b *testing.B, from store.Store, to store.S3Options) {
	st, err := store.OpenS3(b.Context(), to)
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	for o, err := range from.List(b.Context(), "", "") {
		if err != nil {
			b.Fatal(err)
		}
		r, err := from.Open(b.Context(), o.Key, 0, -1)
		if err != nil {
			b.Fatal(err)
		}
		if err := st.Put(b.Context(), o.Key, r, o.Size); err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}

// hex returns n hexadecimal digits, which differ by seed. Compression halves them.
func hex(seed uint64, n int) string {
	r, b := rand.New(rand.NewPCG(seed, 0)), make([]byte, n)
	for i := range b {
		b[i] = "0123456789abcdef"[r.IntN(16)]
	}
	return string(b)
}
