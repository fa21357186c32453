package watch_test

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/servetest"
	"sheaf/serve/watch"
)

const (
	base = "https://archive.example.jp"
	page = "http://www.waseda.ac.jp/"
)

// bench is a site with watches, whose clock is set by hand.
type bench struct {
	*servetest.Site
	*watch.Watches
	t     *testing.T
	jp    *account.Account
	now   time.Time
	mu    sync.Mutex
	calls []call
	fail  int // so many calls fail
	hook  string
}

type call struct {
	header http.Header
	body   []byte
}

func newBench(t *testing.T, change func(*watch.Options)) *bench {
	b := &bench{Site: servetest.New(t, nil), t: t, now: time.Date(2026, 11, 20, 10, 30, 0, 0, time.UTC)}
	b.jp = b.Account("jp", "always", "jp")
	opt := watch.Options{
		DB: b.DB, Records: b.Library.Records, Account: b.Accounts.Find, Base: base, PrivateHooks: true, Unconfirmed: true,
		Now: func() time.Time { return b.now },
	}
	if change != nil {
		change(&opt)
	}
	var err error
	if b.Watches, err = watch.New(opt); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.calls = append(b.calls, call{r.Header, body})
		if b.fail > 0 {
			b.fail--
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	b.hook = server.URL
	return b
}

func (b *bench) add(wish watch.Wish) *watch.Watch {
	b.t.Helper()
	w, err := b.Add(b.t.Context(), b.jp, wish)
	if err != nil {
		b.t.Fatal(err)
	}
	return w
}

// look reads the feed to its end.
func (b *bench) look() {
	b.t.Helper()
	if err := watch.LookAll(b.t.Context(), b.Watches); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) deliver() {
	b.t.Helper()
	if err := watch.DeliverAll(b.t.Context(), b.Watches); err != nil {
		b.t.Fatal(err)
	}
}

// told lists what was found for the account, oldest first.
func (b *bench) told(id string) (list []string) {
	b.t.Helper()
	notices, err := b.Notices(b.t.Context(), "jp", id, 1000)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, n := range notices {
		list = append(list, string(n.What)+" "+n.URL)
	}
	slices.Sort(list)
	return list
}

func (b *bench) day(n int) time.Time { return b.now.AddDate(0, 0, n) }

// TestNotices: what visits find of a page is told once, to whom it concerns.
func TestNotices(t *testing.T) {
	b := newBench(t, nil)
	publish := func(n int, records ...*archive.Record) {
		b.Publish(b.day(n).Format("20060102"), map[string][]*archive.Record{"www.waseda.ac.jp": records})
	}
	publish(-1, servetest.Page(page, "before anybody watched", b.day(-1)))
	b.look()
	one, all, below := b.add(watch.Wish{URL: page}), b.add(watch.Wish{Host: "www.waseda.ac.jp"}), b.add(watch.Wish{Prefix: page + "news/"})
	expect := func(what string, w *watch.Watch, want ...string) {
		t.Helper()
		if got := b.told(w.ID); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	publish(1, servetest.Again(page, "before anybody watched", b.day(-1), b.day(1)))
	b.look()
	expect("unchanged", one)
	publish(2, servetest.Page(page, "other words", b.day(2)), servetest.Page(page+"news/1", "news", b.day(2)))
	b.look()
	expect("changed", one, "changed "+page)
	expect("of the host", all, "changed "+page, "new "+page+"news/1")
	expect("below", below, "new "+page+"news/1")
	publish(3, servetest.Answer(page, 404, b.day(3)))
	publish(4, servetest.Answer(page, 404, b.day(4)))
	publish(5, servetest.Answer(page, 503, b.day(5)))
	publish(6, servetest.Page(page, "other words", b.day(6)))
	b.look()
	expect("gone and back", one, "back "+page, "changed "+page, "gone "+page)
	b.look()
	expect("once", one, "back "+page, "changed "+page, "gone "+page)

	notices, err := b.Notices(t.Context(), "jp", one.ID, 10)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(notices, func(n *watch.Notice) bool { return n.What == watch.PageChanged })
	if n := notices[i]; n.Page != base+"/web/20261122103000/"+page || n.Diff != base+"/diff/20261121103000/20261122103000/"+page || n.Edition != "20261122" {
		t.Errorf("%+v", n)
	}
}

// The links of a notice can be requested, whatever the page's address is.
func TestLinksOfLonePercent(t *testing.T) {
	b := newBench(t, nil)
	w := b.add(watch.Wish{URL: page + "100%"})
	for n := 1; n <= 2; n++ {
		b.Publish(b.day(n).Format("20060102"), map[string][]*archive.Record{"www.waseda.ac.jp": {servetest.Page(page+"100%", fmt.Sprint("day ", n), b.day(n))}})
	}
	b.look()
	notices, err := b.Notices(t.Context(), "jp", w.ID, 10)
	testkit.Must(t, err)
	links := 0
	for _, n := range notices {
		for _, link := range []string{n.Page, n.Diff, n.Stored} {
			if link != "" && !strings.HasSuffix(link, "/100%25") {
				t.Errorf("%s leads to %s", n.What, link)
			}
			links++
		}
	}
	if links != 6 {
		t.Errorf("%d links", links)
	}
}

// A revisit of an answer that the page is gone is no visit to a page.
func TestRevisitsOfWhatIsGone(t *testing.T) {
	b := newBench(t, nil)
	w := b.add(watch.Wish{URL: page})
	revisit := func(status, n int) *archive.Record {
		r := servetest.Again(page, "", b.day(2), b.day(n))
		r.HTTP = fmt.Appendf(nil, "HTTP/1.1 %d Status\r\n\r\n", status)
		return r
	}
	for n, record := range []*archive.Record{
		servetest.Page(page, "here", b.day(1)), servetest.Answer(page, 404, b.day(2)), revisit(404, 3), revisit(304, 4), servetest.Page(page, "here", b.day(5)), revisit(404, 6),
	} {
		b.Publish(b.day(n+1).Format("20060102"), map[string][]*archive.Record{"www.waseda.ac.jp": {record}})
		b.look()
	}
	if got, want := b.told(w.ID), []string{"back " + page, "gone " + page, "gone " + page, "new " + page}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

// TestScopeAndEnd: a watch tells nothing that its account may not see, nor when account or watch
// are gone.
func TestScopeAndEnd(t *testing.T) {
	b := newBench(t, nil)
	if _, err := b.Add(t.Context(), b.jp, watch.Wish{Host: "www.example.com"}); !errors.Is(err, watch.ErrScope) {
		t.Errorf("outside the scope: %v", err)
	}
	narrow := b.Account("narrow", "always", "waseda.ac.jp")
	w, err := b.Add(t.Context(), narrow, watch.Wish{Host: "www.waseda.ac.jp"})
	if err != nil {
		t.Fatal(err)
	}
	b.look()
	if err := b.Accounts.Delete(t.Context(), "narrow"); err != nil {
		t.Fatal(err)
	}
	mine := b.add(watch.Wish{URL: page, Webhook: b.hook})
	b.Publish("20261121", map[string][]*archive.Record{"www.waseda.ac.jp": {servetest.Page(page, "x", b.day(1))}})
	b.look()
	if n, err := b.Notices(t.Context(), "narrow", w.ID, 10); err != nil || len(n) != 0 {
		t.Errorf("%d notices of an account that is gone, %v", len(n), err)
	}
	if err := b.Remove(t.Context(), "narrow", mine.ID); !errors.Is(err, watch.ErrNoWatch) {
		t.Errorf("another account's watch: %v", err)
	}
	if err := b.Remove(t.Context(), "jp", mine.ID); err != nil {
		t.Fatal(err)
	}
	b.deliver()
	if len(b.calls) != 0 {
		t.Errorf("%d calls for a watch that was ended", len(b.calls))
	}
}

// TestWebhook: it is signed, tried again with pauses, and known by its ID.
func TestWebhook(t *testing.T) {
	b := newBench(t, nil)
	b.look()
	w := b.add(watch.Wish{URL: page, Webhook: b.hook})
	b.Publish("20261121", map[string][]*archive.Record{"www.waseda.ac.jp": {servetest.Page(page, "x", b.day(1))}})
	b.look()
	b.fail = 2
	for range 5 {
		b.deliver()
	}
	if len(b.calls) != 1 {
		t.Fatalf("%d calls before the pause was over", len(b.calls))
	}
	b.now = b.now.Add(31 * time.Second)
	b.deliver()
	b.now = b.now.Add(61 * time.Second)
	b.deliver()
	b.now = b.now.Add(time.Hour)
	b.deliver()
	if len(b.calls) != 3 {
		t.Fatalf("%d calls, want 3: the third was taken", len(b.calls))
	}
	last := b.calls[2]
	var doc struct {
		Type string
		Data watch.Notice
	}
	if err := json.Unmarshal(last.body, &doc); err != nil || doc.Type != "page.new" || doc.Data.URL != page || doc.Data.Page == "" {
		t.Errorf("%s %v", last.body, err)
	}
	var at int64
	fmt.Sscan(last.header.Get("webhook-timestamp"), &at)
	id := last.header.Get("webhook-id")
	if want := watch.Sign(w.Secret, id, time.Unix(at, 0), last.body); id == "" || id != b.calls[0].header.Get("webhook-id") || last.header.Get("webhook-signature") != want {
		t.Errorf("%v, want signature %s", last.header, want)
	}
}

func TestWishes(t *testing.T) {
	b := newBench(t, func(o *watch.Options) { o.Limit = 2 })
	for _, c := range []struct {
		wish watch.Wish
		says string
	}{
		{watch.Wish{}, "give one of"},
		{watch.Wish{URL: page, Host: "www.waseda.ac.jp"}, "give one of"},
		{watch.Wish{URL: "ftp://www.waseda.ac.jp/"}, "url"},
		{watch.Wish{Host: "not a host"}, "host"},
		{watch.Wish{Prefix: page, Body: "q=1"}, "form"},
		{watch.Wish{URL: page, Webhook: "file:///etc/passwd"}, "webhook"},
		{watch.Wish{URL: page, Webhook: "http://me:secret@hook.jp/"}, "webhook"},
		{watch.Wish{URL: page, Every: watch.Daily}, "no email"},
		{watch.Wish{URL: page, Email: "Me <me@example.jp>"}, "email"},
		{watch.Wish{URL: page, Email: "me@example.jp\r\nBcc: all@example.jp"}, "email"},
		{watch.Wish{URL: page, Email: "me@example.jp", Every: "minute"}, "every"},
		{watch.Wish{Host: "www.waseda.ac.jp", Once: true}, "once"},
		{watch.Wish{URL: page, Once: true, Webhook: "https://hook.jp/"}, "once"},
	} {
		_, err := b.Add(t.Context(), b.jp, c.wish)
		if !errors.Is(err, watch.ErrWish) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.wish, err)
		}
	}
	if _, err := b.Add(t.Context(), b.jp, watch.Wish{URL: page, Email: "me@example.jp"}); !errors.Is(err, watch.ErrNoMail) {
		t.Errorf("mail without a mail server: %v", err)
	}
	w := b.add(watch.Wish{URL: "HTTP://WWW.Waseda.AC.jp:80/a b#top"})
	if w.URL != page+"a%20b" || w.Host != "www.waseda.ac.jp" {
		t.Errorf("%+v", w)
	}
	if w := b.add(watch.Wish{URL: page + "x?PHPSESSID=0123456789abcdef0123456789abcdef&q=1"}); w.URL != page+"x?q=1" {
		t.Errorf("a session's number is watched: %+v", w)
	}
	if _, err := b.Add(t.Context(), b.jp, watch.Wish{URL: page}); !errors.Is(err, watch.ErrMany) {
		t.Errorf("over the limit: %v", err)
	}
}

// TestOnce: a page that is to be saved once is saved by the first visit after that, whatever the
// visit finds, and nothing is told. Then another visit may be asked for, up to a limit.
func TestOnce(t *testing.T) {
	b := newBench(t, nil)
	publish := func(n int, records ...*archive.Record) {
		b.Publish(b.day(n).Format("20060102"), map[string][]*archive.Record{"www.waseda.ac.jp": records})
		b.look()
	}
	publish(-1, servetest.Page(page, "as it was", b.day(-1)))
	asked := b.add(watch.Wish{URL: page, Once: true})
	saved := func(id string) time.Time {
		t.Helper()
		w, err := b.Get(t.Context(), "jp", id)
		testkit.Must(t, err)
		return w.Saved
	}
	if again := b.add(watch.Wish{URL: page, Once: true}); again.ID != asked.ID {
		t.Errorf("a page that waits is asked for twice: %+v, %+v", asked, again)
	}
	publish(1, servetest.Page(page+"other", "another page", b.day(1)))
	if at := saved(asked.ID); !at.IsZero() {
		t.Errorf("saved at %v, by a visit to another page", at)
	}
	publish(2, servetest.Again(page, "as it was", b.day(-1), b.day(2)))
	publish(3, servetest.Page(page, "other words", b.day(3)))
	if at := saved(asked.ID); !at.Equal(b.day(2)) {
		t.Errorf("saved at %v, want the first visit, at %v", at, b.day(2))
	}
	if told := b.told(asked.ID); len(told) > 0 {
		t.Errorf("told of %q", told)
	}
	next := b.add(watch.Wish{URL: page, Once: true})
	if next.ID == asked.ID {
		t.Error("a page that was saved cannot be saved again")
	}
	var err error
	n := 2
	for ; err == nil && n < 200; n++ {
		_, err = b.Add(t.Context(), b.jp, watch.Wish{URL: fmt.Sprint(page, n), Once: true})
	}
	if !errors.Is(err, watch.ErrMany) || n != 101 {
		t.Errorf("after %d pages on a day: %v", n, err)
	}
	b.now = b.day(2)
	b.add(watch.Wish{URL: page + "tomorrow", Once: true})
}

// TestForm: a form's answer is watched under the URL that it is kept under.
func TestForm(t *testing.T) {
	b := newBench(t, nil)
	b.look()
	w := b.add(watch.Wish{URL: page + "search", Body: "q=%C6%FC&n=10"})
	if w.URL != page+"search?__wb_method=POST&q=%C6%FC&n=10" || w.Address != page+"search" || w.Media != "application/x-www-form-urlencoded" {
		t.Fatalf("%+v", w)
	}
	b.Publish("20261121", map[string][]*archive.Record{"www.waseda.ac.jp": {
		servetest.Page(page+"search", "the empty form", b.day(1)), servetest.Page(w.URL, "3 results", b.day(1)),
	}})
	b.look()
	if got := b.told(w.ID); !slices.Equal(got, []string{"new " + w.URL}) {
		t.Errorf("%q", got)
	}
	if u := watch.FormURL(page+"api?v=1", "application/json", `{"q":1}`); !strings.HasPrefix(u, page+"api?v=1&__wb_method=POST&__wb_post_data=") {
		t.Errorf("%s", u)
	}
}

// TestAtom: a feed has what RFC 4287 asks of it (4.1.1, 4.1.2), and keeps its names at whatever
// address it is read.
func TestAtom(t *testing.T) {
	b := newBench(t, nil)
	b.look()
	w := b.add(watch.Wish{Host: "www.waseda.ac.jp"})
	b.Publish("20261121", map[string][]*archive.Record{"www.waseda.ac.jp": {
		servetest.Page(page+"?a=1&b=<2>", "<title>Tom &amp; \x01 &lt;Jerry&gt;</title>", b.day(1)), servetest.Page(page, "x", b.day(1)), servetest.Page(page+"gone", "x", b.day(1)),
	}})
	b.look()
	b.Publish("20261122", map[string][]*archive.Record{"www.waseda.ac.jp": {servetest.Page(page, "y", b.day(2)), servetest.Answer(page+"gone", 404, b.day(2))}})
	b.look()
	notices, err := b.Notices(t.Context(), "jp", w.ID, 10)
	if err != nil {
		t.Fatal(err)
	}
	type link struct {
		Rel  string `xml:"rel,attr"`
		Href string `xml:"href,attr"`
	}
	type common struct { // lists, so that one too many shows
		ID      []string `xml:"http://www.w3.org/2005/Atom id"`
		Title   []string `xml:"http://www.w3.org/2005/Atom title"`
		Updated []string `xml:"http://www.w3.org/2005/Atom updated"`
		Authors []string `xml:"http://www.w3.org/2005/Atom author>name"`
		Links   []link   `xml:"http://www.w3.org/2005/Atom link"`
	}
	type feed struct {
		XMLName xml.Name `xml:"http://www.w3.org/2005/Atom feed"`
		common
		Entries []common `xml:"http://www.w3.org/2005/Atom entry"`
	}
	read := func(self string) (f feed) {
		t.Helper()
		var out strings.Builder
		if err := watch.WriteAtom(&out, watch.FeedID("jp", w.ID), self, "mine & <yours>", b.now, notices); err != nil {
			t.Fatal(err)
		}
		if err := xml.Unmarshal([]byte(out.String()), &f); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		return f
	}
	f := read(base + "/v1/watches.atom")
	if len(f.Entries) != 5 || f.Title[0] != "mine & <yours>" || len(f.Authors) == 0 || f.Authors[0] == "" {
		t.Errorf("%+v", f)
	}
	ids, titles := make(map[string]bool), make(map[string]bool)
	for _, e := range append(f.Entries, f.common) {
		if len(e.ID) != 1 || len(e.Title) != 1 || len(e.Updated) != 1 {
			t.Fatalf("want one id, title and updated: %+v", e)
		}
		if id, err := url.Parse(e.ID[0]); err != nil || !id.IsAbs() || ids[e.ID[0]] {
			t.Errorf("%q is no name of its own", e.ID[0])
		}
		if _, err := time.Parse(time.RFC3339, e.Updated[0]); err != nil || strings.ToUpper(e.Updated[0]) != e.Updated[0] {
			t.Errorf("updated %q: %v", e.Updated[0], err)
		}
		ids[e.ID[0]], titles[e.Title[0]] = true, true
		rels := make(map[string]int)
		for _, l := range e.Links {
			rels[l.Rel]++
			if u, err := url.Parse(l.Href); err != nil || !u.IsAbs() {
				t.Errorf("link %+v: %v", l, err)
			}
		}
		if rels["alternate"] > 1 || rels["alternate"]+rels["self"] != 1 { // an entry without content has one alternate, a feed its self
			t.Errorf("%+v", e.Links)
		}
	}
	if !titles["new: Tom & <Jerry>"] || !titles["gone: "+page+"gone"] || !titles["changed: "+page] {
		t.Errorf("%v", titles)
	}
	again := read("https://other.example.jp/v1/watches.atom")
	if again.ID[0] != f.ID[0] || again.Entries[0].ID[0] != f.Entries[0].ID[0] {
		t.Error("the feed has other names at another address")
	}
}

// TestTwoFollow: two processes that follow at once make each notice once, and deliver it once.
func TestTwoFollow(t *testing.T) {
	testkit.Slow(t)
	b := newBench(t, nil)
	b.look()
	w := b.add(watch.Wish{Host: "www.waseda.ac.jp", Webhook: b.hook})
	const pages = 40
	for n := range pages {
		b.Publish("20261121", map[string][]*archive.Record{"www.waseda.ac.jp": {servetest.Page(fmt.Sprint(page, n), "x", b.day(1))}})
	}
	var at sync.WaitGroup
	for range 4 {
		at.Go(func() {
			if err := errors.Join(watch.LookAll(context.Background(), b.Watches), watch.DeliverAll(context.Background(), b.Watches)); err != nil {
				t.Error(err)
			}
		})
	}
	at.Wait()
	b.look()
	b.deliver()
	if got := b.told(w.ID); len(got) != pages {
		t.Errorf("%d notices of %d pages", len(got), pages)
	}
	seen := make(map[string]int)
	for _, c := range b.calls {
		seen[c.header.Get("webhook-id")]++
	}
	if len(seen) != pages || len(b.calls) != pages {
		t.Errorf("%d calls about %d of %d pages", len(b.calls), len(seen), pages)
	}
}

// TestCollection: a watch says whether robots visit its host.
func TestCollection(t *testing.T) {
	b := newBench(t, nil)
	w := b.add(watch.Wish{Host: "www.waseda.ac.jp"})
	if w.Collection != watch.Requested {
		t.Errorf("the host is %q before any manager has entered it", w.Collection)
	}
	for _, step := range []struct {
		state   string
		waiting int
		want    watch.Collection
	}{{"pending", 0, watch.Pending}, {"accepted", 1, watch.Accepted}, {"accepted", 0, watch.Collected}, {"refused", 0, watch.Refused}} {
		_, err := b.DB.Exec(`INSERT INTO hosts (name, state, source, created, grp, waiting) VALUES ('www.waseda.ac.jp', ?, '', 1, '', ?)
			ON CONFLICT (name) DO UPDATE SET state = excluded.state, waiting = excluded.waiting`, step.state, step.waiting)
		testkit.Must(t, err)
		list, err := b.List(t.Context(), "jp")
		testkit.Must(t, err)
		if len(list) != 1 || list[0].Collection != step.want {
			t.Errorf("%s, waiting %d: %+v", step.state, step.waiting, list)
		}
	}
}
