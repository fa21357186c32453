package format

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"mime"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/naming"
	"sheaf/cmd/sheaf/demo/sites"
	"sheaf/internal/testkit"
)

// BenchmarkOverhead stores the demo's real pages, host by host. It reports how many bytes a record
// takes more than the same record in a plain warc.gz, with one gzip member each at level 6, of what
// these consist, and the ratio of the files' sizes.
func BenchmarkOverhead(b *testing.B) {
	all := demoSites(b)
	var segments, single, warc, plain, records, headers, index float64
	for b.Loop() {
		segments, single, warc, plain, records, headers, index = 0, 0, 0, 0, 0, 0, 0
		for _, s := range all {
			part := sealSite(b, s)
			segments += viewSize(b, archive.Members, part)
			single += viewSize(b, archive.Single, part)
			warc += viewSize(b, archive.WARC, part)
			plain += plainSize(b, part)
			records += float64(len(s.records))
			for _, c := range part.Index.Cells {
				headers += float64(c.TLen)
			}
			index += float64(part.Index.IndexLength)
		}
	}
	b.ReportMetric(records, "records")
	b.ReportMetric(plain, "plain-B")
	b.ReportMetric((segments-plain)/records, "over-B/record")
	b.ReportMetric(headers/records, "tar-headers-B/record")
	b.ReportMetric(index/records, "index-B/record")
	b.ReportMetric((warc-plain)/records, "divided-B/record")
	b.ReportMetric(segments/plain, "segment/plain")
	b.ReportMetric(single/plain, "single/plain")
	b.ReportMetric(warc/plain, "warc/plain")
}

// demoSites returns the hosts of the demo's first day, with the headers that a small server sends.
func demoSites(b *testing.B) []*site {
	b.Helper()
	packed, err := os.ReadFile("../../cmd/sheaf/demo/sites.zip.zst")
	testkit.Must(b, err)
	z, err := sites.Unpack(packed)
	testkit.Must(b, err)
	hosts := map[string]*site{}
	var out []*site
	for _, f := range z.File {
		name, ok := strings.CutPrefix(f.Name, "day1/")
		host, file, _ := strings.Cut(name, "/")
		if !ok || file == "" || !f.Mode().IsRegular() {
			continue
		}
		r, err := f.Open()
		if err != nil {
			b.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			b.Fatal(err)
		}
		if hosts[host] == nil {
			hosts[host] = &site{host: host}
			out = append(out, hosts[host])
		}
		if _, err := naming.HostOf("http://" + host + "/" + file); err != nil {
			continue // a name that a URL would have percent-encoded
		}
		mimeType, _, _ := strings.Cut(mime.TypeByExtension(path.Ext(file)), ";")
		http := fmt.Sprintf("HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nLast-Modified: %s\r\nETag: \"%x-%x\"\r\nAccept-Ranges: bytes\r\n\r\n",
			firstNight.Format(time.RFC1123), mimeType, len(body), f.Modified.Format(time.RFC1123), len(body), f.CRC32)
		hosts[host].add(archive.Page, "/"+file, http, body)
	}
	if len(out) == 0 {
		b.Fatal("the demo has no sites")
	}
	return out
}

func sealSite(b *testing.B, s *site) archive.Part {
	b.Helper()
	segment := b.TempDir() + "/segment"
	w, err := archive.Create(segment, s.host, "overhead", archive.WriterOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range s.records {
		if _, err := w.Append(s.records[i].record()); err != nil {
			b.Fatal(err)
		}
	}
	x, err := w.Seal()
	if err != nil {
		b.Fatal(err)
	}
	f, err := os.Open(segment)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return archive.Part{Source: archive.FileSource(f, 0), Index: x}
}

func viewSize(b *testing.B, kind archive.ViewKind, part archive.Part) float64 {
	b.Helper()
	v, err := archive.NewView(kind, []archive.Part{part})
	if err != nil {
		b.Fatal(err)
	}
	return float64(v.Size())
}

// plainSize compresses each record of the WARC view again, as other writers do.
func plainSize(b *testing.B, part archive.Part) float64 {
	b.Helper()
	v, err := archive.NewView(archive.WARC, []archive.Part{part})
	if err != nil {
		b.Fatal(err)
	}
	rc, err := v.OpenRange(context.Background(), 0, v.Size())
	if err != nil {
		b.Fatal(err)
	}
	defer rc.Close()
	data, err := io.ReadAll(rc)
	if err != nil {
		b.Fatal(err)
	}
	var out bytes.Buffer
	in := bytes.NewReader(data)
	zr, err := gzip.NewReader(in)
	for ; err == nil; err = zr.Reset(in) {
		zr.Multistream(false)
		zw, _ := gzip.NewWriterLevel(&out, 6) // a valid level
		if _, err := io.Copy(zw, zr); err != nil {
			b.Fatal(err)
		}
		if err := zw.Close(); err != nil {
			b.Fatal(err)
		}
	}
	if err != io.EOF {
		b.Fatal(err)
	}
	return float64(out.Len())
}
