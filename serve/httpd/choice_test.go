package httpd_test

import (
	"fmt"
	"net/http"
	neturl "net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/serve/servetest"
)

// maxHops is how many redirects readers follow, as curl -L --max-redirs 10 does.
const maxHops = 10

// follow gets a path and follows redirects.
func (s site) follow(t *testing.T, path string, header ...string) (resp *http.Response, body string, hops []string) {
	t.Helper()
	for hops = []string{path}; len(hops) <= maxHops; hops = append(hops, path) {
		resp, body = s.doText(t, path, header...)
		if to := resp.Header.Get("Location"); resp.StatusCode/100 == 3 && to != "" {
			path = strings.TrimPrefix(to, s.url)
			continue
		}
		return resp, body, hops
	}
	t.Fatalf("no end after %d redirects: %q", maxHops, hops)
	return nil, "", nil
}

// revisitOf returns a revisit with a head of its own, as other crawlers write it.
func revisitOf(url, head string, first *archive.Record, body string, at time.Time) *archive.Record {
	r := answer(archive.Revisit, url, head, "", at)
	r.Body, r.PayloadDigest, r.RefersTo, r.RefersDate = nil, servetest.Digest(body), first.URL, first.Time
	return r
}

// A revisit may be of any answer. Its own head tells status, target and type, and what it refers to
// is only the body.
func TestRevisitsOfAnything(t *testing.T) {
	s := newSite(t)
	const moved, lost, root = "<h1>301 Moved Permanently</h1>", "<h1>404</h1>", "http://www.waseda.ac.jp"
	to := func(path string) string { return "HTTP/1.1 301 Moved\nContent-Type: text/html\nLocation: " + path }
	a := answer(archive.Response, root+"/a", to("/a-new"), moved, at(22, 1))
	gone := answer(archive.Response, root+"/gone", "HTTP/1.1 404 Not Found\nContent-Type: text/html", lost, at(22, 1))
	text := answer(archive.Page, root+"/data.txt", "HTTP/1.1 200 OK\nContent-Type: text/plain", "<p>x</p>", at(22, 1))
	page := servetest.Page(root+"/page", "<p>page", at(22, 1))
	nowhere := &archive.Record{URL: root + "/nowhere", Time: at(21, 1)}
	s.Publish("20261122", map[string][]*archive.Record{host: {
		a, gone, text, page,
		servetest.Page(root+"/a-new", "<p>new a", at(22, 1)), servetest.Page(root+"/c-new", "<p>new c", at(22, 1)), servetest.Page(root+"/a-newest", "<p>newest a", at(22, 1)),
		revisitOf(root+"/c", to("/c-new"), a, moved, at(23, 1)),
		revisitOf(root+"/a", to("/a-newest"), a, moved, at(24, 1)),
		revisitOf(root+"/gone", "HTTP/1.1 404 Not Found\nContent-Type: text/html", gone, lost, at(24, 1)),
		revisitOf(root+"/data.html", "HTTP/1.1 200 OK\nContent-Type: text/html", text, "<p>x</p>", at(24, 1)),
		revisitOf(root+"/data", "HTTP/1.1 200 OK", text, "<p>x</p>", at(24, 1)),
		revisitOf(root+"/page", "HTTP/1.1 304 Not Modified", page, "<p>page", at(24, 1)),
		revisitOf(root+"/d", to("/c-new"), nowhere, "1", at(24, 1)),
		revisitOf(root+"/lost", "HTTP/1.1 404 Not Found", nowhere, "2", at(24, 1)),
		revisitOf(root+"/unknown", "HTTP/1.1 200 OK", nowhere, "3", at(24, 1)),
	}})
	for path, want := range map[string]struct {
		status       int
		media, shown string
	}{
		"/web/2026/http://www.waseda.ac.jp/a":           {200, "text/html", "newest a"},
		ofDay(22, "", root+"/a"):                        {200, "text/html", "<p>new a"},
		ofDay(23, "", root+"/c"):                        {200, "text/html", "new c"},
		ofDay(24, "", root+"/gone"):                     {404, "text/html", lost},
		ofDay(24, "id_", root+"/gone"):                  {404, "text/html", lost},
		ofDay(24, "", root+"/data.html"):                {200, "text/html", "<p>x</p>"},
		ofDay(24, "id_", root+"/data.html"):             {200, "text/html", "<p>x</p>"},
		ofDay(24, "id_", root+"/data"):                  {200, "text/plain", "<p>x</p>"},
		ofDay(24, "id_", root+"/page"):                  {200, "text/html", "<p>page"},
		ofDay(24, "", root+"/d"):                        {200, "text/html", "new c"},
		ofDay(24, "id_", root+"/lost"):                  {404, "", ""},
		"/web/2026/http://www.waseda.ac.jp/unknown":     {404, "application/problem+json", "is not here"},
		"/timegate/http://www.waseda.ac.jp/gone":        {404, "text/html", lost},
		"/timemap/json/http://www.waseda.ac.jp/gone":    {200, "application/json", "20261122010000/"},
		"/timemap/link/http://www.waseda.ac.jp/gone":    {200, "application/link-format", "20261124010000/"},
		"/timemap/link/http://www.waseda.ac.jp/c":       {200, "application/link-format", "20261123010000/"},
		"/timemap/link/http://www.waseda.ac.jp/unknown": {404, "application/problem+json", "is not here"},
	} {
		resp, body, hops := s.follow(t, path)
		if resp.StatusCode != want.status || !strings.HasPrefix(resp.Header.Get("Content-Type"), want.media) || !strings.Contains(body, want.shown) {
			t.Errorf("%s: %d %s %.200q by %q, want %+v", path, resp.StatusCode, resp.Header.Get("Content-Type"), body, hops, want)
		}
	}
}

// A timestamp that is not whole names a period. The last version within it is shown. One outside it
// is shown only if the period has none, even if that one is nearer to the period's end.
func TestVersionOfAPeriod(t *testing.T) {
	s := newSite(t)
	const root = "http://www.waseda.ac.jp"
	to := func(path string) string { return "HTTP/1.1 301 Moved\nLocation: " + path }
	day := func(year, month, day int) time.Time {
		return time.Date(year, time.Month(month), day, 1, 0, 0, 0, time.UTC)
	}
	s.Publish("20261122", map[string][]*archive.Record{host: {
		servetest.Page(root+"/a", "one", day(2020, 1, 2)), servetest.Page(root+"/a", "two", day(2020, 1, 30)), servetest.Page(root+"/a", "three", day(2021, 1, 1)),
		servetest.Page(root+"/b", "old", day(2020, 1, 2)), answer(archive.Response, root+"/b", "HTTP/1.1 404 Not Found", "gone", day(2021, 1, 1)),
		servetest.Page(root+"/c", "old", day(2020, 1, 2)), answer(archive.Response, root+"/c", "HTTP/1.1 503 Busy", "busy", day(2021, 1, 1)),
		servetest.Page("https://www.waseda.ac.jp/d", "old", day(2019, 12, 1)), answer(archive.Response, root+"/d", to("https://www.waseda.ac.jp/d"), "", day(2020, 12, 1)),
	}})
	for path, want := range map[string]string{
		"/web/2020/" + root + "/a": "two", "/web/202001/" + root + "/a": "two", "/web/20200102/" + root + "/a": "one", "/web/2020010201/" + root + "/a": "one",
		"/web/20200102id_/" + root + "/a": "one", "/web/2021/" + root + "/a": "three", "/web/2022/" + root + "/a": "three", "/web/2019/" + root + "/a": "one",
		"/web/202012/" + root + "/a": "three", "/web/20201231235959/" + root + "/a": "three", "/web/2/" + root + "/a": "three", "/web/" + root + "/a": "three",
		"/web/2020/" + root + "/b": "old", "/web/2021/" + root + "/b": "gone", "/web/2021/" + root + "/c": "old", "/web/2020/" + root + "/d": "old",
	} {
		if resp, body, hops := s.follow(t, path); resp.StatusCode >= 500 || !strings.Contains(body, want) {
			t.Errorf("%s: %s %.200q, want %s", hops, resp.Status, body, want)
		}
	}
	for _, path := range []string{"/diff/2020/2021/" + root + "/a", "/diff?from=2020&to=2021&url=" + root + "/a"} {
		if resp, _, hops := s.follow(t, path); resp.StatusCode != 200 || !strings.HasSuffix(hops[len(hops)-1], "/diff/20200130010000/20210101010000/"+root+"/a") {
			t.Errorf("%s: %s", hops, resp.Status)
		}
	}
}

// A shortened timestamp names a period of the service's zone: a day, hour, month or year as people
// there say it. Of the second in an address of 14 digits the zone is UTC, as all web archives have
// it.
func TestPeriodsAreOfTheServicesZone(t *testing.T) {
	s := newSite(t)
	var err error
	s.look.Zone, err = time.LoadLocation("Asia/Tokyo")
	testkit.Must(t, err)
	const url = "http://www.waseda.ac.jp/z"
	in := func(stamp string) time.Time {
		at, err := time.ParseInLocation("2006-01-02 15:04:05", stamp, s.look.Zone)
		testkit.Must(t, err)
		return at
	}
	s.Publish("20261122", map[string][]*archive.Record{host: {
		servetest.Page(url, "2025 ends", in("2025-12-31 23:59:59")), servetest.Page(url, "2026 begins", in("2026-01-01 00:00:00")),
		servetest.Page(url, "night before", in("2026-11-23 23:59:59")), servetest.Page(url, "that day", in("2026-11-24 00:00:00")),
		servetest.Page(url, "day after", in("2026-11-25 08:30:00")), servetest.Page(url, "December", in("2026-12-01 00:10:00")),
	}})
	for stamp, want := range map[string]string{
		"20261124": "that day", "20261123": "night before", "20261125": "day after", "2026112400": "that day", "2026112508": "day after", "2026112323": "night before",
		"202611": "day after", "202612": "December", "2025": "2025 ends", "202601": "2026 begins", "2026": "December",
		"20261123150000": "that day", "20261123145959": "night before", "20260101000001": "2026 begins",
	} {
		if resp, body, hops := s.follow(t, "/web/"+stamp+"/"+url); resp.StatusCode != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %s %.200q, want %s", hops, resp.Status, body, want)
		}
	}
	for pair, want := range map[string]string{
		"20261124/20261125": "20261123150000/20261124233000", "2025/2026": "20251231145959/20261130151000", "2026112323/2026112400": "20261123145959/20261123150000",
		"20261123145959/20261124": "20261123145959/20261123150000",
	} {
		if resp, _, hops := s.follow(t, "/diff/"+pair+"/"+url); resp.StatusCode != 200 || !strings.HasSuffix(hops[len(hops)-1], "/diff/"+want+"/"+url) {
			t.Errorf("%s: %s %s, want %s", pair, hops, resp.Status, want)
		}
	}
}

// Of several answers in one second the page is shown, and never a part of it for the whole.
func TestOneSecond(t *testing.T) {
	s := newSite(t)
	const root = "http://www.waseda.ac.jp"
	page := func(path string) *archive.Record { return servetest.Page(root+path, "good "+path, at(22, 1)) }
	other := func(path, head string) *archive.Record {
		return answer(archive.Response, root+path, head, "bad", at(22, 1))
	}
	cut := servetest.Page(root+"/t", "cut", at(22, 1))
	cut.Truncated = "disconnect"
	s.Publish("20261122", map[string][]*archive.Record{host: {
		page("/p"), other("/p", "HTTP/1.1 429 Too Many Requests"), page("/q"), other("/q", "HTTP/1.1 302 Found\nLocation: /login"),
		other("/s", "HTTP/1.1 503 Busy"), page("/s"), page("/g"), other("/g", "HTTP/1.1 404 Not Found"), page("/t"), cut,
		other("/u", "HTTP/1.1 429 Too Many Requests"), other("/u", "HTTP/1.1 301 Moved\nLocation: /p"), other("/u", "HTTP/1.1 429 Too Many Requests"),
		page("/film"), answer(archive.Response, root+"/film", "HTTP/1.1 206 Partial Content\nContent-Range: bytes 0-0/9", "x", at(22, 2)),
		answer(archive.Response, root+"/part", "HTTP/1.1 206 Partial Content\nContent-Range: bytes 0-0/9", "x", at(22, 2)),
		answer(archive.Page, root+"/all", "HTTP/1.1 206 Partial Content\nContent-Range: bytes 0-8/9", "good /all", at(22, 2)),
	}})
	s.Publish("20261123", map[string][]*archive.Record{host: {answer(archive.Response, root+"/p", "HTTP/1.1 404 Not Found", "no more", at(25, 1))}})
	for _, path := range []string{"/p", "/q", "/s", "/g", "/t", "/film", "/all"} {
		for _, when := range []string{"20261122", "20261122010000", "20261122010000id_", "20261122020000id_"} {
			if resp, body, hops := s.follow(t, "/web/"+when+"/"+root+path); resp.StatusCode != 200 || !strings.Contains(body, "good "+path) {
				t.Errorf("%s: %s %q", hops, resp.Status, body)
			}
		}
	}
	if resp, body, _ := s.follow(t, "/web/2026/"+root+"/p"); resp.StatusCode != 404 || !strings.Contains(body, "no more") {
		t.Errorf("gone later: %s %s", resp.Status, body)
	}
	if resp, body, hops := s.follow(t, ofDay(22, "", root+"/u")); resp.StatusCode != 200 || !strings.Contains(body, "good /p") {
		t.Errorf("%s: %s %s", hops, resp.Status, body)
	}
	for path, want := range map[string]string{"/part": "206 bytes 0-0/9 x", "/all": "206 bytes 0-3/9 good"} {
		resp, body, _ := s.follow(t, "/web/2026id_/"+root+path, "Range", "bytes=0-3")
		if got := strings.Join([]string{resp.Status[:3], resp.Header.Get("Content-Range"), body}, " "); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if resp, body, _ := s.follow(t, "/web/2026/"+root+"/part"); resp.StatusCode != 206 || body != "x" {
		t.Errorf("a part: %s %q", resp.Status, body)
	}
}

// Parts of one body that cover it are shown as the whole, which takes ranges, and each part is as
// it was at its own address. Parts of different bodies, and parts with a gap, are not joined.
func TestPartsAreJoined(t *testing.T) {
	s := newSite(t)
	const root, film = "http://www.waseda.ac.jp", "0123456789"
	part := func(path string, first, last int, head string, second int) *archive.Record {
		head = fmt.Sprintf("HTTP/1.1 206 Partial Content\nContent-Type: video/mp4\nContent-Range: bytes %d-%d/%d%s", first, last, len(film), head)
		return answer(archive.Response, root+path, head, film[first:last+1], at(22, 1).Add(time.Duration(second)*time.Second))
	}
	cut := part("/cut", 5, 9, "", 0)
	cut.Truncated = archive.TruncatedLength
	s.Publish("20261122", map[string][]*archive.Record{host: {
		part("/film", 0, 3, "", 0), part("/film", 7, 9, "", 0), part("/film", 2, 8, "", 1), part("/film", 5, 5, "", 2),
		part("/gap", 0, 3, "", 0), part("/gap", 5, 9, "", 1), part("/cut", 0, 4, "", 0), cut,
		part("/other", 0, 4, "\nETag: \"a\"", 0), part("/other", 5, 9, "\nETag: \"b\"", 1),
		part("/later", 0, 4, "", 0), part("/later", 5, 9, "", 25*60*60),
	}})
	for _, c := range []struct{ path, ranges, want string }{
		{"/film", "", "200  " + film}, {"/film", "bytes=2-7", "206 bytes 2-7/10 234567"}, {"/film", "bytes=-1", "206 bytes 9-9/10 9"},
		{"/film", "bytes=10-", "416 bytes */10 "}, {"/gap", "", "206 bytes 5-9/10 56789"}, {"/other", "", "206 bytes 5-9/10 56789"},
		{"/later", "", "206 bytes 5-9/10 56789"}, {"/cut", "", "206  56789"}, {"/gap", "bytes=0-1", "206 bytes 5-9/10 56789"},
	} {
		for _, mode := range []string{"id_", ""} {
			header := []string{"Range", c.ranges}
			if c.ranges == "" {
				header = nil
			}
			resp, body, _ := s.follow(t, "/web/2026"+mode+"/"+root+c.path, header...)
			if resp.StatusCode == http.StatusRequestedRangeNotSatisfiable {
				body = ""
			}
			if got := strings.Join([]string{resp.Status[:3], resp.Header.Get("Content-Range"), body}, " "); got != c.want {
				t.Errorf("%s%s %s: %s, want %s", mode, c.path, c.ranges, got, c.want)
			}
		}
	}
	_, lines := s.doText(t, "/v1/cdx?output=text&fl=address&url="+root+"/film")
	var got []string
	for address := range strings.FieldsSeq(lines) {
		resp, body := s.doText(t, address)
		got = append(got, resp.Status[:3]+" "+resp.Header.Get("Content-Range")+" "+body)
	}
	slices.Sort(got)
	if want := []string{"206 bytes 0-3/10 0123", "206 bytes 2-8/10 2345678", "206 bytes 5-5/10 5", "206 bytes 7-9/10 789"}; !slices.Equal(got, want) {
		t.Errorf("the parts themselves are %q, want %q", got, want)
	}
}

// A film of parts that are files is shown whole, takes ranges across them, and is no page of the
// current archive.
func TestLargePartsAreJoined(t *testing.T) {
	s := newSite(t)
	const url, size = "http://www.waseda.ac.jp/film.mp4", 400 << 10
	film := noise(3 * size)
	var parts []*archive.Record
	for first := 0; first < len(film); first += size {
		head := fmt.Sprintf("HTTP/1.1 206 Partial Content\nContent-Type: video/mp4\nContent-Range: bytes %d-%d/%d", first, first+size-1, len(film))
		parts = append(parts, answer(archive.Page, url, head, film[first:first+size], at(22, 1).Add(time.Duration(first)*time.Microsecond)))
	}
	s.Publish("20261122", map[string][]*archive.Record{host: parts})
	for ranges, want := range map[string]string{
		"": film, "bytes=0-": film, "bytes=-5": film[len(film)-5:],
		fmt.Sprintf("bytes=%d-%d", size-9, 2*size+8): film[size-9 : 2*size+9],
	} {
		for _, mode := range []string{"id_", ""} {
			header := []string{"Range", ranges}
			if ranges == "" {
				header = nil
			}
			if resp, body, _ := s.follow(t, "/web/2026"+mode+"/"+url, header...); body != want || resp.Header.Get("X-Archive-Parts") != "3" {
				t.Errorf("%s%s: %s, %d bytes, want %d", mode, ranges, resp.Status, len(body), len(want))
			}
		}
	}
	if _, lines := s.doText(t, "/v1/cdx?output=text&fl=status&url="+url); lines != "206\n206\n206\n" {
		t.Errorf("CDX says %q, want three parts", lines)
	}
}

// Each record of a second has an address of its own, which CDX and the TimeMap show, and at which
// it is as it was.
func TestEachRecordHasAnAddress(t *testing.T) {
	s := newSite(t)
	const url = "http://www.waseda.ac.jp/p"
	other := func(head, body string) *archive.Record {
		return answer(archive.Response, url, head, body, at(22, 1))
	}
	part := answer(archive.Response, url, "HTTP/1.1 206 Partial Content\nContent-Range: bytes 1-2/4", "ar", at(23, 1))
	want := []string{"200 good", "206 ar", "302 ", "404 good", "429 slow down", "503 busy"}
	s.Publish("20261122", map[string][]*archive.Record{host: {
		other("HTTP/1.1 429 Too Many Requests", "slow down"), servetest.Page(url, "good", at(22, 1)), other("HTTP/1.1 302 Found\nLocation: /login", ""),
		other("HTTP/1.1 404 Not Found", "good"), part,
	}})
	s.Publish("20261123", map[string][]*archive.Record{host: {other("HTTP/1.1 503 Busy", "busy")}})
	_, lines := s.doText(t, "/v1/cdx?output=text&fl=address&url="+url)
	_, links := s.doText(t, "/timemap/link/"+url)
	_, list := s.doText(t, "/timemap/json/"+url)
	var got []string
	etags := make(map[string]bool)
	for address := range strings.FieldsSeq(lines) {
		version, _, _ := strings.Cut(strings.TrimPrefix(address, "/web/"), "/")
		resp, body := s.doText(t, "/web/"+version+"id_/"+url)
		got = append(got, strings.TrimSpace(resp.Status[:3]+" "+body))
		etags[resp.Header.Get("ETag")] = true
		plain, _, _ := strings.Cut(version, "~")
		listed := strings.Contains(links, s.url+address+">") && strings.Contains(list, s.url+address+`"`)
		stands := strings.Contains(links, s.url+"/web/"+plain+"/"+url+">")
		if listed == (resp.StatusCode == 200) || !listed && !stands {
			t.Errorf("%s of %s: listed %v", resp.Status, address, listed)
		}
	}
	slices.Sort(got)
	for i := range want {
		want[i] = strings.TrimSpace(want[i])
	}
	if !slices.Equal(got, want) || len(etags) != len(want) {
		t.Errorf("%q, want %q; %d ETags", got, want, len(etags))
	}
	if resp, _ := s.doText(t, "/web/20261122010000~00000000/"+url); resp.StatusCode != 404 {
		t.Errorf("a record that is not there: %s", resp.Status)
	}
}

// Every redirect ends, at a page or at one that says where it led.
func TestRedirectsEnd(t *testing.T) {
	s := newSite(t)
	const root = "http://www.waseda.ac.jp"
	to := func(path, to string) *archive.Record {
		return answer(archive.Response, root+path, "HTTP/1.1 302 Found\nLocation: "+to, "", at(22, 1))
	}
	second := func(path string) *archive.Record {
		return servetest.Page(root+path, "real "+path, at(22, 1).Add(2*time.Second))
	}
	captures := []*archive.Record{
		to("/page", "/page"), second("/page"), to("/dir", "/dir/"), second("/dir/"), to("/Page2", "/page2"), second("/page2"),
		to("/never", "/never"), to("/one", "/two"), to("/two", "/one"), to("/lost", "/nowhere"),
	}
	captures = append(captures, to("/toempty", "/empty"), servetest.Page(root+"/empty", "of before", at(20, 1)),
		answer(archive.Response, root+"/empty", "HTTP/1.1 302 Found\nLocation: ", "moved nowhere", at(22, 1)))
	// Walls send each visit back to where it came from. So many versions are not all looked into.
	captures = append(captures, to("/wall0", "/wall1"), second("/wall3"))
	for i := 1; i <= 2; i++ {
		for n := range 25 {
			wall := to(fmt.Sprint("/wall", i), fmt.Sprint("/wall", i))
			wall.Time = at(23-i, 1).Add(time.Duration(n) * time.Second)
			captures = append(captures, wall)
		}
		door := to(fmt.Sprint("/wall", i), fmt.Sprint("/wall", i+1))
		door.Time = at(22-i, 1)
		captures = append(captures, door)
	}
	for _, n := range []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d"} {
		captures = append(captures, to("/long"+n, "/long"+string(n[0]+1)))
	}
	s.Publish("20261122", map[string][]*archive.Record{host: captures})
	for path, want := range map[string]string{
		"/page": "real /page", "/dir": "real /dir/", "/Page2": "real /page2", "/never": "elsewhere", "/one": "elsewhere", "/two": "elsewhere",
		"/toempty": "moved nowhere", "/wall0": "elsewhere", "/wall2": "real /wall3",
		"/lost": "is not here", "/long0": "elsewhere", "/longd": "is not here",
	} {
		for _, place := range []string{ofDay(22, "", root+path), ofDay(22, "if_", root+path), "/web/20261122/" + root + path, "/timegate/" + root + path} {
			if resp, body, hops := s.follow(t, place); !strings.Contains(body, want) {
				t.Errorf("%q: %s %.300s, want %s", hops, resp.Status, body, want)
			}
		}
	}
}

// ownLinks matches the service's own paths about stored pages.
var ownLinks = regexp.MustCompile(`/(?:web|timemap|timegate|diff)/[^\s<>"]*`)

// A page whose address has a percent sign that begins no escape opens by our own links, and a
// Refresh header leads on as the element does.
func TestLonePercentAndRefreshHeader(t *testing.T) {
	s := newSite(t)
	const root = "http://www.waseda.ac.jp"
	s.Publish("20261122", map[string][]*archive.Record{host: {
		servetest.Page(root+"/100%", "a hundred", at(22, 1)), servetest.Page(root+"/bad%zz", "bad", at(22, 1)),
		answer(archive.Page, root+"/refresh", "HTTP/1.1 200 OK\nContent-Type: text/html\nRefresh: 0; url=/next", "<p>wait", at(22, 1)),
	}})
	for path, want := range map[string]string{"/100%25": "a hundred", "/bad%25zz": "bad"} {
		for _, place := range []string{ofDay(22, "", root+path), ofDay(22, "id_", root+path), "/web/2026/" + root + path, "/timegate/" + root + path} {
			if resp, body, hops := s.follow(t, place); resp.StatusCode != 200 || !strings.Contains(body, want) {
				t.Errorf("%q: %s", hops, resp.Status)
			}
		}
		if _, body := s.doText(t, "/timemap/link/"+root+path); !strings.Contains(body, ofDay(22, "", root+path)+">") {
			t.Errorf("%s: its TimeMap has another address: %s", path, body)
		}
		for _, list := range []string{"/timemap/json/" + root + path, "/timemap/link/" + root + path, "/web/*/" + root + path} {
			resp, body := s.doText(t, list)
			for _, link := range ownLinks.FindAllString(body+resp.Header.Get("Link"), -1) {
				if _, err := neturl.PathUnescape(link); err != nil {
					t.Errorf("%s leads to %s: %v", list, link, err)
				}
			}
		}
	}
	if _, body := s.doText(t, ofDay(22, "", root+"/refresh")); !strings.Contains(body, `href="`+ofDay(22, "", root+"/next")+`"`) {
		t.Errorf("a Refresh header leads nowhere: %s", body)
	}
}
