package yesterday

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jlaffaye/ftp"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/archive/store"
	"sheaf/archive/urlindex"
	"sheaf/ingest/accept"
	"sheaf/ingest/ledger"
	"sheaf/ingest/quarantine"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/internal/window"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/robotd"
	"sheaf/robotd/batch"
	"sheaf/robotd/upload"
	"sheaf/serve/account"
	"sheaf/serve/bandwidth"
	"sheaf/serve/feed"
	"sheaf/serve/watch"
	"sheaf/test/batchtest"
)

// TestWrite makes a fixture with the program as it is now. SHEAF_TEST_WRITE_FIXTURE=2027-01-31
// makes it testdata/2027-01-31, which must not exist yet. With SHEAF_TEST_FULL=1, and in CI, it
// makes one in a temporary directory and opens it, so that this still works when the next fixture
// is needed.
func TestWrite(t *testing.T) {
	to := filepath.Join("testdata", os.Getenv("SHEAF_TEST_WRITE_FIXTURE"))
	switch {
	case to != "testdata":
		if exists(to) {
			t.Fatalf("%s is there; a fixture is never rewritten", to)
		}
	case os.Getenv("SHEAF_TEST_FULL") != "", os.Getenv("SHEAF_TEST_REQUIRE") == "all":
		to = filepath.Join(t.TempDir(), "new")
	default:
		t.Skip("SHEAF_TEST_WRITE_FIXTURE names no fixture to be made")
	}
	fixture, dir := filepath.Base(to), t.TempDir()
	t.Run("live", func(t *testing.T) { liveThrough(t, dir, fixture) })
	if t.Failed() {
		return
	}
	tellsNothing(t, dir)
	data, err := pack(dir)
	testkit.Must(t, err)
	testkit.Must(t, os.MkdirAll(to, 0o755))
	testkit.Must(t, os.WriteFile(filepath.Join(to, dataFile), data, 0o644))
	t.Run("consume", func(t *testing.T) { consume(t, to) }) // on a copy, because it leaves traces
	if !t.Failed() {
		t.Run("open", func(t *testing.T) { reopen(t, to) })
	}
}

// liveThrough fills a data directory and robots' folders with two days and a part of a third.
func liveThrough(t *testing.T, dir, fixture string) {
	testkit.Must(t, os.Mkdir(filepath.Join(dir, "robots"), 0o755))
	h := live(t, dir, fixture, firstDay)
	h.makeAccounts()
	one, two := h.admit()
	h.watch()

	h.importFile("crawl.warc.gz", warcFile(), "")
	h.cycle(one, two)
	firstEdition := h.publish(3, one, two)
	h.takeDown("", catalog.Tombstone{Host: down, Reason: "a letter", By: "op"})

	h.nextSecond() // of two versions of one second the archive shows the later one
	h.web.setDay(secondDay)
	h.importFile("tree.tar.gz", treeFile(), "h0/site1 www.mukashi.example.jp\n")
	h.cycle(one, two)
	secondEdition := h.publish(3, one, two)
	h.takeDown("", catalog.Tombstone{Host: part, URLPrefix: "http://" + part + "/secret/", Reason: "privacy", By: "op"})
	h.takeDown("", catalog.Tombstone{Host: tinyB, Edition: firstEdition, Reason: "a mistake", By: "op"})
	for _, act := range []string{"", "/lift", "", "/lift"} {
		h.takeDown(act, catalog.Tombstone{Host: back, Reason: "court" + act, By: "op"})
	}
	if firstEdition == secondEdition {
		t.Fatalf("both editions are %s", firstEdition)
	}

	h.madeUp()
	h.download(secondEdition)
	h.gather()
	h.rest()
	var swept catalog.Collection
	h.service.Operate(http.MethodPost, "/v1/admin/gc", nil, &swept)
	if swept.Condemned.Objects == 0 {
		t.Error("nothing is listed to be deleted, so that the fixture has no such list")
	}

	h.nextSecond()
	h.web.setDay(pendingDay)
	testkit.Must(t, one.Cycle(t.Context()))
	h.sendHalf()
	h.stopInTheMiddle(two)
}

// makeAccounts makes an account that sees everything, and one with every kind of limit.
func (h *installation) makeAccounts() {
	hours, err := window.Parse("Mon-Fri 09:00-18:00 Asia/Tokyo")
	testkit.Must(h, err)
	rate, err := bandwidth.ParseRates("1MiB Mon-Fri 09:00-12:00 Asia/Tokyo | 2MiB")
	testkit.Must(h, err)
	for _, a := range []account.Account{
		{Name: reader, Domains: []string{"*"}},
		{Name: student, Domains: []string{"example.ac.jp"}, Window: hours, Rate: rate, Quota: 100 << 20},
	} {
		h.service.Operate(http.MethodPost, api.PathAdminAccounts, account.NewAccount{Account: a, Password: password(a.Name)}, nil)
	}
}

// admit lets the robots join, and gives the two real ones their hosts.
func (h *installation) admit() (one, two *robotd.Robot) {
	var open []*robotd.Robot
	for n, name := range []string{first, second} {
		var admitted manager.AdmitResponse
		h.service.Operate(http.MethodPost, api.PathAdminRobots, manager.AdmitRequest{Name: name}, &admitted)
		_, err := robotd.Join(h.Context(), h.url(), admitted.Token, h.robot(name).DataDir)
		testkit.Must(h, err)
		r := h.open(name)
		testkit.Must(h, r.Subscribe(h.Context()))
		open = append(open, r)
		add := manager.HostsRequest{Addresses: map[string][]string{}}
		for host := range h.web.hosts() {
			if (host == long) == (name == second) {
				add.Hosts = append(add.Hosts, "http://"+host+"/")
				add.Addresses[host] = []string{fmt.Sprintf("192.0.2.%d", n+1)} // hosts of one address have one robot
			}
		}
		slices.Sort(add.Hosts)
		h.service.Operate(http.MethodPost, api.PathAdminHosts, add, nil)
	}
	var all manager.HostsResponse
	h.getJSON(operatorName, api.PathAdminHosts, &all)
	for _, host := range all.Hosts {
		want := first
		if host.Name == long {
			want = second
		}
		if !slices.Equal(host.Robots, []string{want}) {
			h.Fatalf("%s is with %v, want %s", host.Name, host.Robots, want)
		}
	}
	return open[0], open[1]
}

// watch makes watches of a page, of a form and of a host. The last one calls a webhook at an
// address where calls are forbidden.
func (h *installation) watch() {
	for _, wish := range []watch.Wish{{URL: "http://" + river + "/b.html"}, {URL: "http://" + river + "/search", Body: fields}, {Host: long, Webhook: "http://127.0.0.1:9/hook"}} {
		body, err := json.Marshal(wish)
		testkit.Must(h, err)
		h.post(reader, "/v1/watches", body, http.StatusCreated, nil)
	}
}

// post sends a request that must be answered with a status.
func (h *installation) post(who, path string, body []byte, status int, out any) {
	h.Helper()
	resp, data, err := h.do(h.Context(), who, http.MethodPost, path, bytes.NewReader(body))
	testkit.Must(h, err)
	if resp.StatusCode != status {
		h.Fatalf("POST %s: %s: %.300s", path, resp.Status, data)
	}
	if out != nil {
		testkit.Must(h, json.Unmarshal(data, out))
	}
}

func (h *installation) cycle(robots ...*robotd.Robot) {
	h.Helper()
	for _, r := range robots {
		testkit.Must(h, r.Cycle(h.Context()))
	}
}

func (h *installation) takeDown(act string, t catalog.Tombstone) {
	h.Helper()
	h.service.Operate(http.MethodPost, "/v1/admin/takedowns"+act, t, nil)
}

// nextSecond waits for the next whole second, so that new times differ from earlier ones.
func (h *installation) nextSecond() {
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
}

// importFile imports a file of another program.
func (h *installation) importFile(name string, data []byte, hosts string) {
	h.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, part := range []struct {
		field string
		data  []byte
	}{{"hosts", []byte(hosts)}, {"file", data}} {
		w, err := form.CreateFormFile(part.field, name)
		testkit.Must(h, err)
		_, err = w.Write(part.data)
		testkit.Must(h, err)
	}
	testkit.Must(h, form.Close())
	var done accept.Imported
	testkit.Must(h, h.service.Send(h.Context(), http.MethodPost, "/v1/admin/imports", form.FormDataContentType(), &body, &done))
	if !done.Fresh || done.Pages == 0 {
		h.Fatalf("import of %s: %+v", name, done)
	}
}

// warcFile returns a crawl by another program: every kind of record, one of them a request, which
// is kept beside the pages.
func warcFile() []byte {
	var out bytes.Buffer
	record := func(kind, url, fields, block string) {
		z := gzip.NewWriter(&out)
		fmt.Fprintf(z, "WARC/1.0\r\nWARC-Type: %s\r\nWARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-%012d>\r\nWARC-Date: 2009-03-01T12:00:00Z\r\n", kind, out.Len())
		if url != "" {
			fmt.Fprintf(z, "WARC-Target-URI: %s\r\n", url)
		}
		fmt.Fprintf(z, "%sContent-Length: %d\r\n\r\n%s\r\n\r\n", fields, len(block), block)
		z.Close() // into memory
	}
	const sent, answered = "Content-Type: application/http; msgtype=request\r\n", "Content-Type: application/http; msgtype=response\r\n"
	const site = "http://www.yoso.example.jp"
	record("warcinfo", "", "Content-Type: application/warc-fields\r\n", "software: another\r\n")
	record("request", site+"/", sent, "GET / HTTP/1.1\r\nHost: www.yoso.example.jp\r\n\r\n")
	record("response", site+"/", answered+"WARC-Payload-Digest: sha1:TOP\r\nWARC-IP-Address: 192.0.2.7\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=EUC-JP\r\n\r\n<p>\xc6\xfc\xcb\xdc")
	record("metadata", site+"/", "Content-Type: application/warc-fields\r\n", "fetchTimeMs: 12\r\n")
	record("response", site+"/moved", answered, "HTTP/1.1 301 Moved\r\nLocation: /new\r\n\r\n")
	record("revisit", site+"/", answered+"WARC-Profile: http://netpreserve.org/warc/1.0/revisit/identical-payload-digest\r\nWARC-Payload-Digest: sha1:TOP\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
	record("response", site+":8080/Big/Page.HTML?x=1&y=2", answered, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>at another port")
	record("resource", site+"/file.txt", "Content-Type: text/plain\r\n", "a resource")
	record("response", "dns:www.yoso.example.jp", "Content-Type: text/dns\r\n", "20090301120000\nwww.yoso.example.jp. 60 IN A 192.0.2.7\n")
	return out.Bytes()
}

// treeFile returns what old robots sent: pages as files, a directory for each host.
func treeFile() []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	t := tar.NewWriter(z)
	for _, f := range [][2]string{{"h0/site1/index.html", "<p>of 1999"}, {"h0/site1/a/b.html", "<p>\x93\xfa\x96{"}, {"www.mukashi2.example.jp/index.html", "<p>its own name"}} {
		t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f[0], Size: int64(len(f[1])), Mode: 0o644, ModTime: time.Date(1999, 11, 20, 3, 4, 5, 0, time.UTC)})
		io.WriteString(t, f[1]) // into memory
	}
	t.Close()
	z.Close()
	return out.Bytes()
}

// madeUp sends two batches of a robot that has no hosts. One stays in quarantine; the other is
// released, and waits to be published.
func (h *installation) madeUp() {
	h.Helper()
	r := batchtest.NewRobots(h)
	r.Name = third
	var admitted manager.AdmitResponse
	h.service.Operate(http.MethodPost, api.PathAdminRobots, manager.AdmitRequest{Name: third}, &admitted)
	ask, err := json.Marshal(wire.JoinRequest{Token: admitted.Token, Version: "test", PublicKey: r.Key.Public().(ed25519.PublicKey)})
	testkit.Must(h, err)
	var joined wire.JoinResponse
	h.post(reader, wire.PathJoin, ask, http.StatusOK, &joined)
	for n := range int64(2) {
		b := batchtest.Make(h, r, n+1, batchtest.Site(fmt.Sprintf("www.tsukuri%d.example.jp", n+1), 3))
		file := filepath.Join(h.TempDir(), "batch")
		testkit.Must(h, os.WriteFile(file, b.Data, 0o600))
		sent := batch.Spooled{ID: b.ID, Path: file, Size: b.Manifest.Size, SHA256: b.Manifest.SHA256, Signed: b.Signed}
		desk := &upload.Service{Base: h.url(), Robot: third, Secret: joined.Secret, Key: wire.OneKey(joined.ServerKey), Client: http.DefaultClient}
		testkit.Must(h, desk.Send(h.Context(), sent))
		h.until("the batch is quarantined", func() bool {
			return slices.ContainsFunc(h.batches(wire.StateQuarantined), func(q ledger.Batch) bool { return q.Batch == b.ID && q.Reason == wire.ReasonHostNotAssigned })
		})
		if n == 1 {
			h.service.Operate(http.MethodPost, "/v1/admin/batches/"+string(b.ID)+"/release", quarantine.Word{By: "op", Note: "it may"}, nil)
			h.until("the batch waits", func() bool { return len(h.batches(wire.StatePostSplit)) == 1 })
		}
	}
}

// download fetches a file by each protocol, so that there are transfers.
func (h *installation) download(edition string) {
	h.Helper()
	f := file{path: placeOf(river) + "/" + edition + ".tar.gz", way: listed}
	_, ok, err := h.fetchHTTP(h.Context(), f)
	testkit.Must(h, err)
	if !ok {
		h.Fatalf("%s is not there", f.path)
	}
	testkit.Must(h, h.overFTP(h.Context(), reader, func(conn *ftp.ServerConn) error {
		_, err := fetchFTP(conn, f)
		return err
	}))
}

// gather starts a query in the background.
func (h *installation) gather() {
	h.Helper()
	var job api.JobStatus
	h.post(reader, "/v1/pages.warc.gz?url=*.example.jp&from=2026", nil, http.StatusAccepted, &job)
	h.until("the job is done", func() bool {
		h.getJSON(reader, api.PathJobs+"/"+job.ID, &job)
		return job.State == api.JobDone
	})
}

// rest waits until the service has nothing left to do: notices are written, transfers recorded,
// runs merged, and the URL index is up to date.
func (h *installation) rest() {
	h.Helper()
	var page feed.Page
	h.getJSON(reader, "/v1/changes?since=0&limit=10000", &page)
	last := int64(0)
	for _, e := range page.Events {
		if e.Op == feed.Put {
			last = e.Seq
		}
	}
	objects, err := store.OpenFS(filepath.Join(h.dir, "service", "store"))
	testkit.Must(h, err)
	defer objects.Close()
	index := urlindex.NewReader(objects, urlindex.ReaderOptions{})
	h.until("the URL index has everything", func() bool {
		v, err := index.Current(h.Context())
		testkit.Must(h, err)
		return v.State() > 0 && v.Through() >= last
	})
	h.until("runs are merged", func() bool {
		log, err := filepath.Glob(filepath.Join(h.dir, "service", "store", "catalog", "*"))
		testkit.Must(h, err)
		for _, name := range log {
			record, err := os.ReadFile(name)
			testkit.Must(h, err)
			if bytes.Contains(record, []byte(`"kind":"merge"`)) {
				return true
			}
		}
		return false
	})
	h.until("the watches have found what there is", func() bool {
		var list watch.WatchList
		h.getJSON(reader, "/v1/watches", &list)
		for _, w := range list.Watches {
			var doc watch.WatchDocument
			h.getJSON(reader, "/v1/watches/"+w.ID, &doc)
			if want := map[string]int{"http://" + river + "/b.html": 2, "http://" + form: 1, "http://" + long + "/": longPages}[w.URL]; len(doc.Notices) != want {
				return false
			}
		}
		return len(list.Watches) == 3
	})
	h.until("the downloads are noted", func() bool {
		return bytes.Count(h.get(operatorName, "/v1/transfers?direction=download"), []byte(`"id"`)) >= 2
	})
}

// errHalf interrupts an upload.
var errHalf = errors.New("the line broke")

// halfway sends one half of every batch.
type halfway struct{ http.RoundTripper }

func (l halfway) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch {
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(io.MultiReader(io.LimitReader(r.Body, r.ContentLength/2), broken{}))
	}
	return l.RoundTripper.RoundTrip(r)
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errHalf }

// sendHalf begins to upload the batch in the first robot's spool, as the robot does, and is
// interrupted.
func (h *installation) sendHalf() {
	h.Helper()
	var id wire.JoinResponse
	folder := h.robot(first).DataDir
	h.readJSON(filepath.Join(folder, "robot.json"), &id)
	signed, err := filepath.Glob(filepath.Join(folder, "spool", "*.manifest"))
	testkit.Must(h, err)
	if len(signed) != 1 {
		h.Fatalf("%d batches are in the spool, want 1", len(signed))
	}
	b := batch.Spooled{Path: strings.TrimSuffix(signed[0], ".manifest") + ".tar.gz"}
	b.Signed, err = os.ReadFile(signed[0])
	testkit.Must(h, err)
	m, err := wire.PeekManifest(b.Signed)
	testkit.Must(h, err)
	b.ID, b.Size, b.SHA256 = m.Batch, m.Size, m.SHA256
	desk := &upload.Service{Base: h.url(), Robot: id.Robot, Secret: id.Secret, Key: wire.OneKey(id.ServerKey), Client: &http.Client{Transport: halfway{http.DefaultTransport}}}
	if err := desk.Send(h.Context(), b); err == nil {
		h.Fatal("the whole batch was sent")
	}
	h.until("a part of the batch is durable", func() bool {
		notes, err := filepath.Glob(filepath.Join(h.dir, "service", "buffers", "receive", "*.info"))
		testkit.Must(h, err)
		var note struct{ Size, Offset int64 }
		if len(notes) == 1 {
			h.readJSON(notes[0], &note)
		}
		return note.Offset > 0 && note.Offset < note.Size
	})
}

func (h *installation) readJSON(name string, v any) {
	h.Helper()
	data, err := os.ReadFile(name)
	testkit.Must(h, err)
	testkit.Must(h, json.Unmarshal(data, v))
}

// stopInTheMiddle stops a robot when it has some pages of its cycle but not all.
func (h *installation) stopInTheMiddle(r *robotd.Robot) {
	h.Helper()
	waiting, release := h.web.holdLong(longPages / 2)
	defer release()
	ctx, stop := context.WithCancel(h.Context())
	defer stop()
	go func() {
		select {
		case <-waiting:
		case <-ctx.Done():
		}
		stop()
	}()
	if err := r.Cycle(ctx); !errors.Is(err, context.Canceled) {
		h.Fatalf("the cycle ended with %v", err)
	}
}

// tellsNothing checks that the files contain nothing of this machine, such as its name or a
// directory.
func tellsNothing(t *testing.T, dir string) {
	var words []string
	host, err := os.Hostname()
	testkit.Must(t, err)
	home, err := os.UserHomeDir()
	testkit.Must(t, err)
	here, err := os.Getwd()
	testkit.Must(t, err)
	for _, w := range []string{dir, os.TempDir() + "/", home + "/", filepath.Dir(filepath.Dir(here)), host} {
		if len(w) > 4 {
			words = append(words, w)
		}
	}
	testkit.Must(t, filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		for _, w := range words {
			if bytes.Contains(data, []byte(w)) {
				t.Errorf("%s holds %s", strings.TrimPrefix(name, dir), w)
			}
		}
		return err
	}))
}

// consume records what consumers get of a fixture, and what the service answers.
func consume(t *testing.T, fixture string) {
	dir := unpack(t, filepath.Join(fixture, dataFile))
	h := live(t, dir, filepath.Base(fixture), today)
	var answers []answer
	for _, q := range h.questions() {
		answers = append(answers, h.ask(q[0], q[1]))
	}
	text, err := json.MarshalIndent(answers, "", " ")
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(filepath.Join(fixture, answersFile), append(text, '\n'), 0o644))

	var lines []byte
	for _, f := range h.everything() {
		got, ok, err := h.fetchHTTP(t.Context(), f)
		testkit.Must(t, err)
		if ok {
			lines = append(append(lines, got.String()...), '\n')
		} else if f.way != named {
			t.Errorf("%s is not there", f.path)
		}
	}
	testkit.Must(t, os.WriteFile(filepath.Join(fixture, consumersFile), lines, 0o644))
}

// questions returns the accounts and paths of the questions to the service.
func (h *installation) questions() [][2]string {
	page := "http://" + river + "/b.html"
	all := [][2]string{
		{operatorName, "/v1/transfers?direction=upload&limit=1000"}, {operatorName, "/v1/transfers?direction=download&limit=1000"},
		{operatorName, api.PathAdminAccounts}, {operatorName, api.PathAdminRobots}, {operatorName, api.PathAdminHosts},
		{operatorName, "/v1/admin/batches?limit=1000"}, {operatorName, "/v1/admin/takedowns"},
		{reader, "/v1/hosts"}, {reader, "/v1/editions"}, {reader, api.PathChanges + "?since=0"}, {reader, api.PathChanges + "?since=3&domain=example.jp"},
		{reader, "/v1/cdx"}, {reader, "/v1/cdx?output=json&latest=true&url=*.example.ac.jp"}, {reader, "/v1/cdx?resolveRevisits=true&url=" + page},
		{reader, "/v1/coverage"}, {reader, "/timemap/link/" + page}, {reader, "/timemap/json/" + page},
		{reader, "/v1/watches"},
		{student, "/v1/hosts"}, {student, api.PathChanges + "?since=0"}, {student, "/v1/cdx?fl=url,timestamp,digest"},
	}
	var list watch.WatchList
	h.getJSON(reader, "/v1/watches", &list)
	for _, w := range list.Watches {
		all = append(all, [2]string{reader, "/v1/watches/" + w.ID})
	}
	return all
}

// unlisted are the suffixes of a host's files that directories do not list, or not always.
var unlisted = []string{".members.tar.gz", ".cdxj", ".wacz", ".links.gz", ".others.warc.gz"}

// everything returns all files for a consumer: those that are listed, those that are found by name,
// and those by HTTP only.
func (h *installation) everything() (files []file) {
	h.Helper()
	files = h.walk(reader)
	has := map[string]bool{}
	byName := func(p string) {
		if !has[p] {
			files, has[p] = append(files, file{path: p, way: named}), true
		}
	}
	var places []string
	for _, f := range files {
		has[f.path] = true
		if place, ok := strings.CutSuffix(f.path, "/MANIFEST"); ok && !strings.HasPrefix(f.path, "/editions/") {
			places = append(places, place)
		}
	}
	published := h.editions()
	day := published[0][:8]
	byName("/ls-lR.gz")
	for _, place := range places {
		for _, base := range append(slices.Clone(published), "current", "all") {
			for _, form := range unlisted {
				byName(place + "/" + base + form)
			}
		}
		for _, form := range append([]string{".tar.gz", ".warc.gz"}, unlisted...) {
			byName(place + "/" + day + "-" + day + form)
		}
	}
	for _, form := range []string{".tar.gz", ".warc.gz", ".members.tar.gz"} {
		files = append(files, file{path: "/v1/pages" + form + "?url=*.example.jp", way: byHTTP})
	}
	for line := range strings.Lines(string(h.get(reader, "/v1/cdx?output=ndjson&fl=url,timestamp,mime,status"))) {
		var l struct{ URL, Timestamp, MIME, Status string }
		testkit.Must(h, json.Unmarshal([]byte(line), &l))
		if l.Status == "200" || l.MIME == "warc/revisit" {
			files = append(files, file{path: "/web/" + l.Timestamp + "id_/" + l.URL, way: byHTTP})
		}
	}
	return files
}

// placeOf returns the path of a host's files.
func placeOf(host string) string { return "/" + naming.HostPath(host) }

// exists reports whether a file is there.
func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
