package ui_test

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"
	"golang.org/x/sync/errgroup"

	"sheaf/ingest/inbox"
	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/mailer"
	"sheaf/internal/servicekey"
	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/serve/httpd/guard"
	"sheaf/test/mailtest"
	"sheaf/ui/board"
)

// bench is a manager with two robots, and what their sites get.
type bench struct {
	*board.Partners
	*testing.T
	m      *manager.Manager
	db     *sql.DB
	mails  *mailtest.Server
	router *mux.Router
}

const contact = "mailto:keeper@waseda.example.ac.jp"

func newBench(t *testing.T, notices bool) *bench {
	t.Helper()
	d, err := db.Open(t.Context(), dbtest.Source(t))
	testkit.Must(t, err)
	t.Cleanup(func() { d.Close() })
	b := &bench{T: t, db: d, mails: mailtest.New(t), router: mux.NewRouter()}
	b.m = manager.New(d, manager.Options{Key: servicekey.Fixed(ed25519.NewKeyFromSeed(make([]byte, 32))), Dir: t.TempDir()})
	outbox := mailer.NewOutbox(d, b.mails.Server, nil)
	b.Partners = board.NewPartners(board.PartnersOptions{
		Site: &webpage.Site{Name: "Archive", Contact: "ops@archive.example.jp"}, Manager: b.m, DB: d, Transfers: transfers.New(d),
		Mails: outbox, Base: "https://archive.test", Notices: notices,
	})
	b.Register(b.router, guard.New(nil, nil, "", slog.New(slog.DiscardHandler)))
	for _, name := range []string{"waseda", "keio"} {
		b.join(name)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- outbox.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return b
}

func (b *bench) join(name string) {
	b.Helper()
	token, _, err := b.m.Roster.Admit(b.Context(), name)
	testkit.Must(b, err)
	_, err = b.m.Roster.Join(b.Context(), wire.JoinRequest{Token: token, Version: "1", PublicKey: make([]byte, 32)})
	testkit.Must(b, err)
	testkit.Must(b, b.m.Roster.Subscribe(b.Context(), name))
}

// beat sends a heartbeat of a robot that has troubles.
func (b *bench) beat(name string, troubles map[wire.Trouble]string) {
	b.Helper()
	_, err := b.m.Heartbeat(b.Context(), name, wire.Heartbeat{Phase: wire.PhaseCollecting, Version: "<script>2</script>", Contact: contact, Troubles: troubles, All: true, Left: 7000, Pages: 3000})
	testkit.Must(b, err)
}

// enter adds a batch to the ledger.
func (b *bench) enter(batch *inbox.Batch) {
	b.Helper()
	batch.Batch = wire.BatchID(batch.ID)
	testkit.Must(b, inbox.NewLedger(b.db).Enter(b.Context(), batch))
}

func (b *bench) get(path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	b.router.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

func (b *bench) page(name string) string {
	b.Helper()
	path, err := b.m.Roster.Page(b.Context(), name)
	testkit.Must(b, err)
	return path
}

// letters waits for so many letters to the site, and returns them.
func (b *bench) letters(n int) []mailtest.Letter {
	b.Helper()
	var list []mailtest.Letter
	testkit.Until(b, "letters", func() bool { list = b.mails.To(b, "keeper@waseda.example.ac.jp"); return len(list) >= n })
	if len(list) != n {
		b.Fatalf("%d letters, want %d: %+v", len(list), n, list)
	}
	return list
}

// none checks that no letter waits to be sent or was sent beyond n.
func (b *bench) none(n int) {
	b.Helper()
	var waiting int
	testkit.Until(b, "an empty outbox", func() bool {
		testkit.Must(b, b.db.QueryRowContext(b.Context(), `SELECT COUNT(*) FROM mails`).Scan(&waiting))
		return waiting == 0
	})
	if list := b.mails.Letters(); len(list) != n {
		b.Errorf("%d letters, want %d: %q", len(list), n, list)
	}
}

func (b *bench) look(at time.Time) {
	b.Helper()
	testkit.Must(b, b.Look(b.Context(), at))
}

// A link shows its robot and no other, until it is revoked; no other link does, and nothing can be
// sent to it.
func TestLinkShowsOneRobot(t *testing.T) {
	b := newBench(t, true)
	b.beat("waseda", map[wire.Trouble]string{wire.TroubleDisk: "the disk has <b>7</b> bytes free", "nonsense": "x"})
	now := time.Now()
	b.enter(&inbox.Batch{ID: "waseda-1", Robot: "waseda", Size: 4711000, Hosts: 12, State: wire.StateQuarantined, Reason: "bad_sum", Detail: "<i>at byte 7</i>", Received: now, Entered: now})
	b.enter(&inbox.Batch{ID: "keio-1", Robot: "keio", State: wire.StatePublished, Received: now, Entered: now})
	path := b.page("waseda")
	w := b.get(path)
	body := w.Body.String()
	for _, want := range []string{"waseda", "4.7 MB", "7,000", "bad_sum", "&lt;b&gt;7&lt;/b&gt;", "ops@archive.example.jp"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, no := range []string{"keio", "<script>", "<i>", "<form", "nonsense"} {
		if strings.Contains(body, no) {
			t.Errorf("the page has %q", no)
		}
	}
	if w.Code != http.StatusOK || t.Failed() {
		t.Fatalf("%d %s", w.Code, body)
	}
	part := strings.Split(path, "/") // "", robot, name, link, signature
	other := strings.Split(b.page("keio"), "/")
	wrong := []string{
		"/robot/keio/" + part[3] + "/" + part[4], "/robot/keio/" + other[3] + "/" + part[4], "/robot/waseda/" + other[3] + "/" + other[4],
		path[:len(path)-1] + "0", "/robot/waseda/" + part[3] + "/x", "/robot/nobody/" + part[3] + "/" + part[4],
	}
	testkit.Must(t, b.m.Roster.RevokePage(t.Context(), "waseda"))
	for _, link := range append(wrong, path) {
		if w := b.get(link); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", link, w.Code)
		}
	}
	fresh := b.page("waseda")
	if w := b.get(fresh); w.Code != http.StatusOK {
		t.Errorf("the new link: %d", w.Code)
	}
	w = httptest.NewRecorder()
	b.router.ServeHTTP(w, httptest.NewRequest(http.MethodPost, fresh, nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	testkit.Must(t, b.m.Roster.Revoke(t.Context(), "waseda", time.Time{}))
	testkit.Must(t, b.m.Roster.Forget(t.Context(), "waseda"))
	b.join("waseda")
	if w := b.get(fresh); w.Code != http.StatusNotFound {
		t.Errorf("the link of an earlier robot of the same name: %d", w.Code)
	}
}

// A site is told once that its robot is silent, and once that it is heard of again, in both
// languages.
func TestSilenceIsToldOnce(t *testing.T) {
	b := newBench(t, true)
	b.beat("waseda", nil)
	b.look(time.Now())
	b.none(0)
	_, err := b.db.ExecContext(t.Context(), `UPDATE robots SET lapsed = ? WHERE name = 'waseda'`, db.Millis(time.Now()))
	testkit.Must(t, err)
	var g errgroup.Group
	for range 4 { // processes
		g.Go(func() error { return b.Look(t.Context(), time.Now()) })
	}
	testkit.Must(t, g.Wait())
	l := b.letters(1)[0]
	for _, want := range []string{"Nothing is heard of it", "連絡がありません", "https://archive.test" + b.page("waseda"), "ops@archive.example.jp"} {
		if !strings.Contains(l.Text, want) {
			t.Errorf("the letter lacks %q: %s", want, l.Text)
		}
	}
	_, err = b.db.ExecContext(t.Context(), `UPDATE robots SET lapsed = 0 WHERE name = 'waseda'`)
	testkit.Must(t, err)
	b.look(time.Now())
	b.look(time.Now())
	if l := b.letters(2)[1]; !strings.Contains(l.Subject, "well again") {
		t.Errorf("%+v", l)
	}
	b.none(2)
}

// A trouble that a robot tells of is told to its site when it lasts, with its words, and when it is
// over; one that is over sooner is not.
func TestLastingTroubleIsTold(t *testing.T) {
	b := newBench(t, true)
	now := time.Now()
	full := map[wire.Trouble]string{wire.TroubleDisk: "7 bytes are free", wire.TroubleUpload: "507\r\nBcc: all@example.jp"}
	b.beat("waseda", full)
	b.look(now.Add(30 * time.Minute))
	b.beat("waseda", nil)
	b.look(now.Add(2 * time.Hour))
	b.none(0)
	b.beat("waseda", full)
	b.look(now.Add(2 * time.Hour))
	b.look(now.Add(3 * time.Hour))
	if l := b.letters(1)[0]; !strings.Contains(l.Text, "7 bytes are free") || !strings.Contains(l.Text, "507 Bcc: all@example.jp") || l.Get("Bcc") != "" {
		t.Errorf("%+v", l)
	}
	b.beat("waseda", map[wire.Trouble]string{wire.TroubleUpload: "507"})
	b.look(now.Add(3 * time.Hour))
	if l := b.letters(2)[1]; !strings.Contains(l.Text, "7 bytes are free") || strings.Contains(l.Text, "507") {
		t.Errorf("%+v", l)
	}
	b.none(2)
}

// A batch that stays in the quarantine is told, until an operator decides about it.
func TestStuckBatchIsTold(t *testing.T) {
	b := newBench(t, true)
	b.beat("waseda", nil)
	now := time.Now()
	b.enter(&inbox.Batch{ID: "waseda-9", Robot: "waseda", State: wire.StateQuarantined, Received: now, Entered: now})
	b.look(now)
	b.none(0)
	b.look(now.Add(61 * time.Minute)) // it is noted
	b.look(now.Add(3 * time.Hour))
	if l := b.letters(1)[0]; !strings.Contains(l.Text, "waseda-9") {
		t.Errorf("%+v", l)
	}
	_, err := b.db.ExecContext(t.Context(), `UPDATE ingest_batches SET decision = 'discarded' WHERE id = 'waseda-9'`)
	testkit.Must(t, err)
	b.look(now.Add(3 * time.Hour))
	b.letters(2)
}

// No mail goes where the setting, the contact or the robot's end forbids it.
func TestNoNotices(t *testing.T) {
	for name, silence := range map[string]func(b *bench){
		"setting": func(*bench) {},
		"URL": func(b *bench) {
			_, err := b.db.ExecContext(b.Context(), `UPDATE robot_sites SET contact = 'https://robots.example.ac.jp/'`)
			testkit.Must(b, err)
		},
		"header": func(b *bench) {
			_, err := b.db.ExecContext(b.Context(), `UPDATE robot_sites SET contact = ?`, "a@b.example\r\nBcc: c@d.example")
			testkit.Must(b, err)
		},
		"revoked": func(b *bench) { testkit.Must(b, b.m.Roster.Revoke(b.Context(), "waseda", time.Time{})) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, name != "setting")
			b.beat("waseda", map[wire.Trouble]string{wire.TroubleDisk: "full"})
			silence(b)
			b.look(time.Now().Add(2 * time.Hour))
			b.none(0)
			if body := b.get(b.page("waseda")).Body.String(); !strings.Contains(body, "too little space") {
				t.Errorf("the page does not say it: %s", body)
			}
		})
	}
}
