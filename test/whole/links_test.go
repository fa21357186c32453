package whole

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jlaffaye/ftp"

	"sheaf/archive/upkeep"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/robotd"
	"sheaf/test/servicetest"
)

// linkedSite serves the host. Its second day has another /b.html.
type linkedSite struct{ second atomic.Bool }

func (s *linkedSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=Shift_JIS")
	switch r.URL.Path {
	case "/":
		io.WriteString(w, "<title>top</title><a href=a.html>A</a><a href='b.html'>B</a><a href=a.html#again>A</a><img src=/i.gif>"+
			"<a href=/moved>\x88\xda\x93]</a><a rel=nofollow href='https://elsewhere.example/?q=\x83\x65'>E</a><a href=mailto:x@example.jp>m</a>")
	case "/a.html":
		io.WriteString(w, "<frameset><frame src=b.html><frame src=//other.example.jp/></frameset>")
	case "/b.html":
		if s.second.Load() {
			io.WriteString(w, "<link rel=stylesheet href=/s.css><a href=/>up</a>")
			return
		}
		io.WriteString(w, "no links at all")
	case "/moved":
		http.Redirect(w, r, "/a.html", http.StatusFound)
	case "/i.gif":
		w.Header().Set("Content-Type", "image/gif")
		io.WriteString(w, "GIF89a")
	case "/s.css":
		w.Header().Set("Content-Type", "text/css")
		io.WriteString(w, "p{background:url(i.gif)}")
	default:
		http.NotFound(w, r)
	}
}

func lines(text ...string) []string {
	for i, l := range text {
		text[i] = strings.ReplaceAll(strings.ReplaceAll(l, " > ", "\t"), "~", base)
		text[i] += strings.Repeat("\t", 4-strings.Count(text[i], "\t")) // without rel and anchor
	}
	slices.Sort(text)
	return text
}

func TestGraphOfASite(t *testing.T) {
	t.Parallel()
	pages := new(linkedSite)
	web := httptest.NewServer(pages)
	defer web.Close()
	h := startGraphs(t, web.Listener.Addr().String())

	first := h.day(t)
	top := []string{"~/ > ~/a.html > a >  > A", "~/ > ~/b.html > a >  > B", "~/ > ~/i.gif > img", "~/ > ~/moved > a >  > 移転", "~/ > https://elsewhere.example/?q=%83e > a nofollow > nofollow > E"}
	frames := []string{"~/a.html > ~/b.html > frame", "~/a.html > http://other.example.jp/ > frame", "~/moved > ~/a.html > redirect"}
	h.same(t, first, lines(slices.Concat(top, frames)...))
	h.same(t, "current", lines(slices.Concat(top, frames)...))

	pages.second.Store(true)
	second := h.day(t)
	b := []string{"~/b.html > ~/s.css > link > stylesheet", "~/b.html > ~/ > a >  > up", "~/s.css > ~/i.gif > css"}
	moved := []string{"~/moved > ~/a.html > redirect"}
	// The edition has the links that it brought; the host's archive has all of them, those of
	// unchanged pages too.
	h.same(t, second, lines(slices.Concat(b, moved)...))
	h.same(t, "current", lines(slices.Concat(top, frames, b)...))

	// The links of a page are taken down with it.
	h.Operate(http.MethodPost, "/v1/admin/takedowns", upkeep.TakedownRequest{Host: host, URLPrefix: base + "/b.html", Reason: "asked", By: "alice"}, nil)
	h.same(t, second, lines(moved[0], "~/s.css > ~/i.gif > css"))
	h.same(t, "all", lines(slices.Concat(top, frames, moved, []string{"~/s.css > ~/i.gif > css"})...))
}

// graphs is a service with one robot and one consumer.
type graphs struct {
	*servicetest.Service
	robot    *robotd.Robot
	password string
}

func startGraphs(t *testing.T, web string) *graphs {
	t.Helper()
	s := servicetest.Start(t, servicetest.Quiet())
	return &graphs{Service: s, robot: s.Robot("r1", host, web), password: s.Consumer("c1")}
}

// day lets the robot collect and the service publish, and returns the edition's name.
func (h *graphs) day(t *testing.T) string {
	t.Helper()
	if err := h.robot.Cycle(t.Context()); err != nil {
		t.Fatal(err)
	}
	drained := make(chan error, 1)
	go func() { drained <- h.robot.Drain(t.Context()) }()
	testkit.Until(t, "a batch is ready", func() (ready bool) {
		var list struct{ Batches []struct{ State wire.State } }
		testkit.Must(t, h.Do(t.Context(), http.MethodGet, "/v1/admin/batches", nil, &list))
		for _, b := range list.Batches {
			if b.State == wire.StateQuarantined {
				t.Fatalf("%+v", b)
			}
			ready = ready || b.State == wire.StatePostSplit
		}
		return ready
	})
	var published struct{ Edition string }
	if err := h.Do(t.Context(), http.MethodPost, "/v1/admin/publish", nil, &published); err != nil {
		t.Fatal(err)
	}
	testkit.Must(t, <-drained)
	return published.Edition
}

// same fetches an archive's links by HTTP and by FTP and compares their lines.
func (h *graphs) same(t *testing.T, name string, want []string) {
	t.Helper()
	for way, fetch := range map[string]func(*testing.T, string) []byte{"HTTP": h.byHTTP, "FTP": h.byFTP} {
		zr, err := gzip.NewReader(bytes.NewReader(fetch(t, name)))
		if err != nil {
			t.Fatalf("%s of %s: %v", name, way, err)
		}
		text, err := io.ReadAll(zr)
		if err != nil {
			t.Fatalf("%s of %s: %v", name, way, err)
		}
		got := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s by %s:\n%s\nwant\n%s", name, way, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func (h *graphs) byHTTP(t *testing.T, name string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("%s/a/%s/%s.links.gz", h.At.HTTP, host, name), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("c1", h.password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %.200s %v", req.URL, resp.Status, body, err)
	}
	return body
}

func (h *graphs) byFTP(t *testing.T, name string) []byte {
	t.Helper()
	conn, err := ftp.Dial(h.At.Download, ftp.DialWithTimeout(testkit.Patience))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Quit()
	if err := conn.Login("c1", h.password); err != nil {
		t.Fatal(err)
	}
	r, err := conn.Retr("/jp/example/site/www/" + name + ".links.gz")
	if err != nil {
		t.Fatal(name, err)
	}
	defer r.Close()
	body, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return body
}
