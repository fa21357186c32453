package httpd_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/archive/naming"
	"sheaf/archive/store"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/httpd"
	"sheaf/serve/reading"
	"sheaf/serve/servetest"
	"sheaf/test/operatorstest"
)

// Whichever bit of a stored segment is wrong, no path shows a wrong body that looks complete. A
// small page is refused before its first byte, a large one is cut off before its last. With a copy
// of the store the right body is shown instead, of a large page at the second attempt.
func TestDamageIsNeverShown(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s := servetest.New(t, &account.Account{Name: account.Anonymous, Domains: []string{"jp"}})
	const base = "http://www.example.jp/"
	long := strings.Repeat("<p>"+prose+"</p>\n", 9000)
	random := rand.New(rand.NewPCG(12, 4))
	captures := []*archive.Record{
		servetest.Page(base+"small.html", "<p>Monday</p>", at(22, 1)),
		servetest.Page(base+"long.html", long, at(22, 1)),
		answer(archive.Page, base+"film", "HTTP/1.1 200 OK\nContent-Type: video/mp4", noise(1_200_000), at(22, 1)),
		answer(archive.Page, base+"image", "HTTP/1.1 200 OK\nContent-Type: image/gif", noise(3000), at(22, 1)),
		answer(archive.Response, base+"moved", "HTTP/1.1 301 Moved\nLocation: /small.html", "moved", at(22, 1)),
		servetest.Page(base+"small.html", "<p>Tuesday</p>", at(23, 1)),
		servetest.Page(base+"long.html", "<p>short</p>", at(23, 1)),
	}
	s.Publish("20261123", map[string][]*archive.Record{"other.jp": {servetest.Page("http://other.jp/", "x", at(22, 1))}}, map[string][]*archive.Record{"www.example.jp": captures})
	object := "segments/" + naming.HostPath("www.example.jp") + "/r1-20261123T000000Z-2.tar.gz"
	file := filepath.Join(s.Dir, filepath.FromSlash(object))
	whole, err := os.ReadFile(file)
	testkit.Must(t, err)
	index, err := archive.ReadIndex(t.Context(), archive.FileSource(bytes.NewReader(whole), 0), int64(len(whole)))
	testkit.Must(t, err)

	// ask sends the request to a new service, which has nothing in memory yet.
	var log bytes.Buffer
	var library *reading.Library
	newServer := func(objects store.Store) *httptest.Server {
		log.Reset()
		library, err = reading.New(reading.Options{Catalog: s.Catalog, Store: objects, Accounts: s.Accounts, Log: slog.New(slog.NewTextHandler(&log, nil))})
		testkit.Must(t, err)
		router := mux.NewRouter()
		testkit.Must(t, httpd.Register(router, httpd.Options{Library: library, Accounts: s.Accounts, Recorder: s.Log,
			Gate: operatorstest.Open, Log: slog.New(slog.DiscardHandler)}))
		server := httptest.NewUnstartedServer(router)
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		server.Start()
		return server
	}
	doors := func(c *archive.Cell) []request {
		web := ofDay(c.Time.Day(), "", c.URL)
		bytesOf := ofDay(c.Time.Day(), "id_", c.URL)
		all := []request{{path: web}, {path: bytesOf}, {path: bytesOf, gzip: true}, {path: bytesOf, rang: "bytes=2-5"}, {path: bytesOf, rang: "bytes=-3"}, {path: bytesOf, rang: "bytes=1-2,4-5"}}
		if strings.HasSuffix(c.URL, "l.html") || strings.HasSuffix(c.URL, "g.html") {
			all = append(all, request{path: "/diff/20261122010000/20261123010000/" + c.URL})
		}
		return all
	}
	want := make(map[request]string)
	server := newServer(s.Store)
	for i := range index.Cells {
		for _, q := range doors(&index.Cells[i]) {
			got, ok := q.ask(t, server.URL)
			if !ok || !strings.HasPrefix(got, "2") && !strings.HasPrefix(got, "301") {
				t.Fatalf("%v of the sound segment: %.100s", q, got)
			}
			want[q] = got
		}
	}
	server.Close()

	second := t.TempDir()
	testkit.Must(t, os.CopyFS(second, os.DirFS(s.Dir)))
	copied := func(context.Context) (store.Store, error) { return store.OpenFS(second) }
	refused, flips := 0, testkit.Size(2, 6)*(len(index.Cells)+1)
	for flip := range flips {
		// Every cell is damaged in turn, whatever its size, and so is the index.
		from, n, asked := index.CellsEnd, int64(len(whole))-index.CellsEnd, index.Cells
		if i := flip % (len(index.Cells) + 1); i < len(index.Cells) {
			from, n, asked = index.Cells[i].Offset, index.Cells[i].Len(), index.Cells[i:i+1]
		}
		place, bit := from+random.Int64N(n), byte(1)<<random.IntN(8)
		damage(t, file, place, whole[place]^bit)
		server, failed := newServer(s.Store), 0
		for i := range asked {
			for _, q := range doors(&asked[i]) {
				got, ok := q.ask(t, server.URL)
				switch {
				case !ok || strings.HasPrefix(got, "500"):
					failed++
				case got != want[q]:
					t.Errorf("bit %#x at %d: %v gave %.200q, want %.200q", bit, place, q, got, want[q])
				}
			}
		}
		server.Close() // and with it all who write to the log
		if failed > 0 && place < index.CellsEnd && (library.Records.Damaged() == 0 || !strings.Contains(log.String(), "object="+object) || !strings.Contains(log.String(), "offset=")) {
			t.Errorf("bit %#x at %d: %d were counted, and the log says %s", bit, place, library.Records.Damaged(), log.String())
		}
		refused += failed

		objects, counted := store.NewBacked(s.Store, copied, slog.New(slog.DiscardHandler))
		server, before := newServer(objects), counted.Reads()
		for i := range asked {
			for _, q := range doors(&asked[i]) {
				got, ok := q.ask(t, server.URL)
				if !ok && asked[i].BodyLen > 1<<20 { // cut off, as it is not checked before its first byte
					got, ok = q.ask(t, server.URL)
				}
				if !ok || got != want[q] {
					t.Errorf("bit %#x at %d: %v gave %.200q with a copy, want %.200q", bit, place, q, got, want[q])
				}
			}
		}
		server.Close()
		if failed > 0 && counted.Reads() == before {
			t.Errorf("bit %#x at %d: nothing was read from the copy", bit, place)
		}
		damage(t, file, place, whole[place])
	}
	if refused < flips {
		t.Errorf("%d answers were refused, of %d damaged bits", refused, flips)
	}
}

// request is one way to ask for a page.
type request struct {
	path string
	gzip bool
	rang string
}

// ask returns status, headers and body of the answer. ok is false if the answer did not end
// properly.
func (q request) ask(t *testing.T, url string) (got string, ok bool) {
	t.Helper()
	req, err := http.NewRequest("GET", url+q.path, nil)
	testkit.Must(t, err)
	req.Header.Set("Accept-Encoding", "identity")
	if q.gzip {
		req.Header.Set("Accept-Encoding", "gzip")
	}
	if q.rang != "" {
		req.Header.Set("Range", q.rang)
	}
	resp, err := http.DefaultClient.Transport.RoundTrip(req)
	if err != nil {
		return err.Error(), false
	}
	defer resp.Body.Close()
	body := io.Reader(resp.Body)
	if resp.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(body); err != nil {
			return err.Error(), false
		}
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return err.Error(), false
	}
	if _, boundary, ok := strings.Cut(resp.Header.Get("Content-Type"), "boundary="); ok {
		text = bytes.ReplaceAll(text, []byte(boundary), nil)
	}
	return strings.ReplaceAll(resp.Status+" "+resp.Header.Get("Location")+" "+string(text), url, ""), true
}

// damage changes one byte of a file.
func damage(t *testing.T, name string, at int64, b byte) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	testkit.Must(t, err)
	_, err = f.WriteAt([]byte{b}, at)
	testkit.Must(t, err)
	testkit.Must(t, f.Close())
}
