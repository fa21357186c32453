package removal_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/archive/catalog"
	"sheaf/internal/db"
	"sheaf/internal/testkit"
	"sheaf/manager/hosts"
	"sheaf/test/removaltest"
	"sheaf/ui/removal"
)

const (
	www  = "www.site.example.ac.jp"
	file = removaltest.File
)

func TestMain(m *testing.M) { testkit.InMemory(m) }

// A site's owner proves by a file that it is theirs, an operator grants the request, and the asker
// is told, in the language of the form.
func TestFromRequestToLetter(t *testing.T) {
	b := newBench(t)
	page := b.ask(wishFor("host", "http://WWW.site.example.ac.jp/"), "Accept-Language", "ja")
	if first := b.letters("owner@mail.example", 1)[0]; !strings.Contains(first.Text, "https://archive.test"+page) || !strings.Contains(first.Subject, www) || first.Get("Auto-Submitted") == "" {
		t.Errorf("the first letter: %+v", first)
	}
	b.act(http.StatusConflict, page, "act", "file")
	b.internet.File(www, file, "# ours\r\n"+b.token(page)+"\r\n")
	b.act(http.StatusSeeOther, page, "act", "file")
	if got := b.state(page); got != removal.Proved {
		t.Fatalf("after the proof it is %s", got)
	}
	r, err := b.Decide(t.Context(), idOf(page), removal.Decision{Grant: true, By: "ops", Reason: "承りました"})
	testkit.Must(t, err)
	if r.State != removal.Granted || r.Carried.IsZero() {
		t.Errorf("%+v", r)
	}
	if !contains(b.downs.stones, catalog.Tombstone{Host: www}) || b.downs.stones[0].By != "ops" || strings.Contains(b.downs.stones[0].Reason, "private") {
		t.Errorf("taken down: %+v", b.downs.stones)
	}
	found, err := b.hosts.Hosts(t.Context(), hosts.Filter{State: hosts.Refused}, "", 10)
	testkit.Must(t, err)
	if len(found) != 1 || found[0].Name != www {
		t.Errorf("refused: %+v", found)
	}
	last := b.letters("owner@mail.example", 2)[1]
	if !strings.Contains(last.Text, "承りました") || !strings.Contains(last.Text, "依頼は認められ") || !strings.Contains(last.Text, page) {
		t.Errorf("the last letter: %+v", last)
	}
	history, err := b.History(t.Context(), r.ID)
	testkit.Must(t, err)
	var acts []string
	for _, e := range history {
		acts = append(acts, e.By+" "+e.Act)
	}
	if got := strings.Join(acts, ", "); got != "asker asked, asker proved, ops granted, service carried out" {
		t.Errorf("history: %s", got)
	}
	if body := b.browse("GET", page, nil).Body.String(); !strings.Contains(body, "Granted.") || strings.Contains(body, b.mails.Address) {
		t.Errorf("the page of the request: %s", body)
	}
}

// A mail to an address of the site, or of its registered domain, proves it; a DNS record does too.
func TestProofByMailAndDNS(t *testing.T) {
	b := newBench(t)
	page := b.ask(wishFor("prefix", "http://"+www+"/~me/"))
	code := b.code(page, "webmaster@example.ac.jp", 1)
	b.act(http.StatusSeeOther, page, "act", "code", "code", " "+strings.ToLower(code)+" ")
	if got := b.state(page); got != removal.Proved {
		t.Errorf("by mail: %s", got)
	}
	other := b.ask(wishFor("domain", "example.ac.jp"))
	b.internet.Record("_sheaf-removal.example.ac.jp", "v=spf1 -all", b.token(other))
	b.act(http.StatusSeeOther, other, "act", "dns")
	if got := b.state(other); got != removal.Proved {
		t.Errorf("by DNS: %s", got)
	}
	for _, p := range []string{page, other} {
		_, err := b.Decide(t.Context(), idOf(p), removal.Decision{Grant: true, By: "ops"})
		testkit.Must(t, err)
	}
	for _, want := range []catalog.Tombstone{{Host: www, URLPrefix: "http://" + www + "/~me/"}, {Host: "*.example.ac.jp"}} {
		if !contains(b.downs.stones, want) {
			t.Errorf("%+v is not taken down: %+v", want, b.downs.stones)
		}
	}
	prefixes, err := b.hosts.RefusedPrefixes(t.Context())
	testkit.Must(t, err)
	if len(prefixes) != 1 || prefixes[0].URL != "http://"+www+"/~me/" {
		t.Errorf("robots leave out %+v", prefixes)
	}
	domains, err := b.hosts.RefusedDomains(t.Context())
	testkit.Must(t, err)
	if len(domains) != 1 || domains[0].Domain != "example.ac.jp" {
		t.Errorf("%+v", domains)
	}
}

// A code is good once, for a day, for its request, and for a few tries; a new one voids it.
func TestCodes(t *testing.T) {
	const address = "postmaster@" + www
	b := newBench(t)
	page, other := b.ask(wishFor("host", www)), b.ask(wishFor("host", www))
	b.act(http.StatusConflict, page, "act", "send", "address", "owner@mail.example")
	b.act(http.StatusConflict, page, "act", "send", "address", "postmaster@ac.jp")
	old := b.code(page, address, 1)
	fresh := b.code(page, address, 2)
	wrong := func(why, page, code string) {
		t.Helper()
		b.act(http.StatusConflict, page, "act", "code", "code", code)
		if got := b.state(page); got != removal.Open {
			t.Fatalf("%s: it is %s", why, got)
		}
	}
	wrong("a void code", page, old)
	wrong("another request's code", other, fresh)
	wrong("no code", page, "")
	b.now = b.now.Add(25 * time.Hour)
	wrong("an old code", page, fresh)
	last := b.code(page, address, 3)
	b.act(http.StatusConflict, page, "act", "send", "address", address) // as many as there are
	for range 10 {
		wrong("a guess", page, "AAAAA-AAAAA")
	}
	wrong("after too many guesses", page, last)
	good := b.code(other, address, 4)
	b.act(http.StatusSeeOther, other, "act", "code", "code", good)
	if got := b.state(other); got != removal.Proved {
		t.Fatal(got)
	}
	b.act(http.StatusConflict, other, "act", "code", "code", good)
}

// The service looks at public addresses only, follows redirects within the host only, reads little,
// and takes no other request's token.
func TestLooksStayOutside(t *testing.T) {
	b := newBench(t)
	page, other := b.ask(wishFor("host", www)), b.ask(wishFor("host", www))
	token := b.token(page)
	fails := func(why string) {
		t.Helper()
		b.act(http.StatusConflict, page, "act", "file")
		if got := b.state(page); got != removal.Open {
			t.Fatalf("%s: it is %s", why, got)
		}
	}
	b.internet.File(www, file, b.token(other))
	fails("another request's token")
	b.internet.File(www, file, strings.Repeat("x", 1<<16)+"\n"+token)
	fails("a token far behind")
	b.internet.File(www, file, token[:len(token)-1])
	fails("a part of the token")
	b.internet.File("other.example.ac.jp", file, token)
	b.internet.Name("other.example.ac.jp", removaltest.Public)
	b.internet.File(www, file, "to http://other.example.ac.jp"+file)
	fails("a redirect to another host")
	b.internet.File(www, file, "to http://"+www+":22/")
	fails("a redirect to another port")
	b.internet.File(www, file, "to http://"+www+file)
	fails("a redirect to itself")
	dialed := len(b.internet.Dialed())
	for _, private := range []string{"127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "192.168.1.1 fe80::1"} {
		b.internet.Name(www, private)
		fails("at " + private)
	}
	if len(b.internet.Dialed()) != dialed {
		t.Errorf("dialed %v", b.internet.Dialed()[dialed:])
	}
	b.internet.Name(www, "10.0.0.1 "+removaltest.Public)
	b.internet.File(www, file, "to /there")
	b.internet.File(www, "/there", token+"\n")
	b.act(http.StatusSeeOther, page, "act", "file")
	if got := b.state(page); got != removal.Proved {
		t.Errorf("at a public address, with a redirect within the host: %s", got)
	}
}

// Two looks at a site have a pause between them, and their number is bounded.
func TestLooksAreBounded(t *testing.T) {
	b := newBench(t)
	page := b.ask(wishFor("host", www))
	for range 60 {
		b.act(http.StatusConflict, page, "act", "file")
		b.now = b.now.Add(-time.Minute)
		b.act(http.StatusConflict, page, "act", "file") // at once
	}
	if n := len(b.internet.Dialed()); n != 50 {
		t.Errorf("%d connections, want 50", n)
	}
}

// What is no host, URL or domain of the public Internet is refused, with the form as it was filled
// in.
func TestBadTargets(t *testing.T) {
	b := newBench(t)
	for kind, targets := range map[string][]string{
		"host": {"", "<script>alert(1)</script>", "localhost", "printer", "jp", "co.jp", "127.0.0.1", "[::1]", "10.1.2.3:80", "http://user:pw@" + www + "/", www + "/page", "ftp://" + www,
			"a b.jp", "x\r\nHost: y.jp", "192.168.0.1", strings.Repeat("a", 300) + ".jp"},
		"prefix":  {www, "http://" + www + "/", "javascript:alert(1)", "http://10.0.0.1/private", "http://" + www + "/" + strings.Repeat("a", 3000)},
		"domain":  {"ac.jp", "8.8.8.8", www + ":8080", "http://" + www + "/a", "*." + www},
		"planets": {www},
	} {
		for _, target := range targets {
			w := b.browse("POST", removal.Path, wishFor(kind, target))
			if w.Code != http.StatusBadRequest || strings.Contains(w.Body.String(), "<script>") || !strings.Contains(w.Body.String(), `role="alert"`) {
				t.Errorf("%s %q: %d %s", kind, target, w.Code, w.Body)
			}
		}
	}
	for name, value := range map[string]string{"email": "a@b.example\r\nBcc: c@d.example", "wish": "everything", "reason": "   "} {
		form := wishFor("host", www)
		form.Set(name, value)
		if w := b.browse("POST", removal.Path, form); w.Code != http.StatusBadRequest {
			t.Errorf("%s %q: %d", name, value, w.Code)
		}
	}
	if w := b.browse("POST", removal.Path, wishFor("host", www), "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"); w.Code != http.StatusForbidden {
		t.Errorf("from a page of another site: %d", w.Code)
	}
	list, err := b.List(t.Context(), 10)
	testkit.Must(t, err)
	if len(list) != 0 {
		t.Errorf("taken: %+v", list)
	}
}

// Names in other scripts and bare addresses are taken, each with the proofs that it can have. A
// reason with markup is shown as text.
func TestOddTargets(t *testing.T) {
	b := newBench(t)
	form := wishFor("host", "http://日本語.jp/")
	form.Set("reason", "<script>alert(1)</script>")
	page := b.ask(form)
	if body := b.browse("GET", page, nil).Body.String(); !strings.Contains(body, "xn--wgv71a119e.jp") || !strings.Contains(body, "postmaster@xn--wgv71a119e.jp") || strings.Contains(body, "<script>") {
		t.Errorf("%s", body)
	}
	page = b.ask(wishFor("host", removaltest.Public))
	body := b.browse("GET", page, nil).Body.String()
	if strings.Contains(body, "postmaster@") || strings.Contains(body, "TXT") {
		t.Errorf("an address has neither mail nor DNS: %s", body)
	}
	b.act(http.StatusConflict, page, "act", "send", "address", "postmaster@"+removaltest.Public)
	b.internet.File(removaltest.Public, file, b.token(page))
	b.act(http.StatusSeeOther, page, "act", "file")
	if got := b.state(page); got != removal.Proved {
		t.Errorf("by a file at the address: %s", got)
	}
}

// A flood from one network, of one mail address or about one site is turned away for a day, and a
// wrong link tells nothing.
func TestFlood(t *testing.T) {
	b := newBench(t)
	many := func(change func(form map[string][]string, i int), most int) {
		t.Helper()
		for i := range most + 1 {
			form := wishFor("host", www)
			change(form, i)
			code := b.browse("POST", removal.Path, form).Code
			if want := map[bool]int{true: http.StatusSeeOther, false: http.StatusTooManyRequests}[i < most]; code != want {
				t.Errorf("request %d: %d, want %d", i+1, code, want)
			}
		}
		b.now = b.now.Add(25 * time.Hour)
	}
	number := func(i int) string { return string(rune('a' + i)) }
	many(func(map[string][]string, int) {}, 5)                                                          // of one address
	many(func(f map[string][]string, i int) { f["email"] = []string{number(i) + "@mail.example"} }, 10) // about one site
	many(func(f map[string][]string, i int) {
		f["email"], f["target"] = []string{number(i) + "@mail.example"}, []string{number(i) + "x.jp"}
	}, 10) // from one network
	page := b.ask(wishFor("host", www))
	for _, wrong := range []string{page + "a", page[:len(page)-1] + "0", removal.Path + "/" + idOf(page) + "/x", removal.Path + "/aaaa/bbbb"} {
		if w := b.browse("GET", wrong, nil); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", wrong, w.Code)
		}
		b.act(http.StatusNotFound, wrong, "act", "file")
	}
}

// A request that nothing proves ends after two weeks, and so does its token.
func TestExpiry(t *testing.T) {
	b := newBench(t)
	page := b.ask(wishFor("host", www))
	b.internet.File(www, file, b.token(page))
	b.now = b.now.Add(15 * 24 * time.Hour)
	b.act(http.StatusConflict, page, "act", "file")
	testkit.Must(t, b.Tidy(t.Context()))
	if got := b.state(page); got != removal.Expired {
		t.Errorf("it is %s", got)
	}
	if _, err := b.Decide(t.Context(), idOf(page), removal.Decision{Grant: true, Unproved: true}); err == nil {
		t.Error("it was granted")
	}
}

// A clock that was ahead ends no request for good, and keeps none for longer.
func TestExpiryByAClockThatWasAhead(t *testing.T) {
	b := newBench(t)
	page := b.ask(wishFor("host", www))
	b.internet.File(www, file, b.token(page))
	right := b.now
	b.now = right.AddDate(1, 0, 0)
	testkit.Must(t, b.Tidy(t.Context()))
	if got := b.state(page); got != removal.Expired {
		t.Errorf("a year ahead, it is %s", got)
	}
	meanwhile := b.ask(wishFor("host", www))
	b.now = right.Add(time.Hour)
	testkit.Must(t, b.Tidy(t.Context()))
	b.act(http.StatusSeeOther, page, "act", "file")
	if got := b.state(page); got != removal.Proved {
		t.Errorf("the clock is right again, and it is %s", got)
	}
	b.now = right.Add(16 * 24 * time.Hour)
	testkit.Must(t, b.Tidy(t.Context()))
	if got := b.state(meanwhile); got != removal.Expired {
		t.Errorf("after two weeks, what came by that clock is %s", got)
	}
}

// A request is decided once, by whoever is first; to grant one that nothing proves takes an extra
// word, and to refuse one a reason.
func TestDecisions(t *testing.T) {
	b := newBench(t)
	page := b.ask(wishFor("host", www))
	for name, by := range map[string]removal.Decision{"unproved": {Grant: true}, "without reason": {Reason: "  "}} {
		if _, err := b.Decide(t.Context(), idOf(page), by); err == nil {
			t.Errorf("%s: it was decided", name)
		}
	}
	var g errgroup.Group
	won := make(chan removal.State, 8)
	for i := range 8 {
		g.Go(func() error {
			r, err := b.Decide(t.Context(), idOf(page), removal.Decision{Grant: i%2 == 0, Unproved: true, Reason: "so", By: "ops"})
			if err == nil {
				won <- r.State
			}
			return nil
		})
	}
	testkit.Must(t, g.Wait())
	if len(won) != 1 || <-won != b.state(page) {
		t.Errorf("%d decided, and it is %s", len(won), b.state(page))
	}
	if granted := b.state(page) == removal.Granted; granted != (len(b.downs.stones) > 0) {
		t.Errorf("granted: %v, taken down: %+v", granted, b.downs.stones)
	}
	b.letters("owner@mail.example", 2)
}

// What an operator has undone stays undone: a domain that is allowed again is taken down no more.
func TestAllowedDomainIsLeft(t *testing.T) {
	b := newBench(t)
	page := b.ask(wishFor("domain", "example.ac.jp"))
	_, err := b.Decide(t.Context(), idOf(page), removal.Decision{Grant: true, Unproved: true, By: "ops"})
	testkit.Must(t, err)
	testkit.Must(t, b.Tidy(t.Context()))
	before := len(b.downs.stones)
	testkit.Must(t, b.hosts.AllowDomain(t.Context(), "example.ac.jp"))
	testkit.Must(t, b.Tidy(t.Context()))
	if after := len(b.downs.stones); before != 2 || after != before {
		t.Errorf("%d take-downs before it was allowed, %d after", before, after)
	}
}

// What is granted stands in the audit log under its host: as a take-down or, for who only wants to
// be left out, as a decision, by who has granted it.
func TestGrantsInTheAudit(t *testing.T) {
	b := newBench(t)
	for _, ask := range []url.Values{wishFor("host", www), wishFor("prefix", "https://"+www+"/%7Eme/"), wishFor("domain", "example.ac.jp")} {
		_, err := b.Decide(t.Context(), idOf(b.ask(ask)), removal.Decision{Grant: true, Unproved: true, By: "ops"})
		testkit.Must(t, err)
	}
	leave := wishFor("host", www)
	leave.Set("wish", "exclusion")
	_, err := b.Decide(t.Context(), idOf(b.ask(leave)), removal.Decision{Grant: true, Unproved: true, By: "ops"})
	testkit.Must(t, err)
	got, err := db.Column[string](t.Context(), b.db, `SELECT name || ': ' || act || ' ' || object FROM audit WHERE outcome = 'ok' AND reason LIKE 'asked for by its owner (request %' ORDER BY id`)
	testkit.Must(t, err)
	want := []string{"ops: takedown host " + www, "ops: takedown host " + www + ", http://" + www + "/~me/", "ops: takedown domain example.ac.jp", "ops: decide host " + www}
	if !slices.Equal(got, want) {
		t.Errorf("the audit log has %q, want %q", got, want)
	}
}

// Who names a port means that one only.
func TestOnePort(t *testing.T) {
	b := newBench(t)
	page := b.ask(wishFor("host", www+":8080"))
	_, err := b.Decide(t.Context(), idOf(page), removal.Decision{Grant: true, Unproved: true, By: "ops"})
	testkit.Must(t, err)
	testkit.Must(t, b.Tidy(t.Context()))
	if len(b.downs.stones) != 1 || b.downs.stones[0].Host != www+":8080" {
		t.Errorf("taken down: %+v", b.downs.stones)
	}
}

// A grant that cannot be carried out now is carried out later, and the asker is told then.
func TestGrantIsCarriedOutLater(t *testing.T) {
	b := newBench(t)
	page := b.ask(wishFor("host", www))
	b.downs.fail = http.ErrServerClosed
	if _, err := b.Decide(t.Context(), idOf(page), removal.Decision{Grant: true, Unproved: true, By: "ops"}); err == nil || b.state(page) != removal.Granted {
		t.Fatalf("%v, and it is %s", err, b.state(page))
	}
	if body := b.browse("GET", page, nil).Body.String(); !strings.Contains(body, "being carried out") {
		t.Errorf("%s", body)
	}
	b.downs.fail = nil
	testkit.Must(t, b.Tidy(t.Context()))
	testkit.Must(t, b.Tidy(t.Context()))
	var taken []string
	for _, s := range b.downs.stones {
		taken = append(taken, s.Host)
	}
	if want := []string{www, www + ":*", www + ":*"}; !slices.Equal(taken, want) { // other ports are looked for each time
		t.Errorf("taken down: %q, want %q", taken, want)
	}
	if list := b.letters("owner@mail.example", 2); len(list) != 2 {
		t.Errorf("%d letters", len(list))
	}
}
