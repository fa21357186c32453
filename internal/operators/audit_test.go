package operators_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/audit"
	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/passwords"
	"sheaf/internal/testkit"
)

// open opens an empty database.
func openLog(t *testing.T) *sql.DB {
	t.Helper()
	d, err := db.Open(t.Context(), dbtest.Source(t))
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, d.Close()) })
	return d
}

// rows returns all rows, newest first.
func rows(t *testing.T, log *audit.Log) []audit.Row {
	t.Helper()
	page, err := log.Page(t.Context(), audit.Filter{Limit: 10_000})
	testkit.Must(t, err)
	return page.Rows
}

// send sends a request to a handler, as an operator unless the name is empty.
func send(h http.Handler, name, remote string) int {
	r := httptest.NewRequest(http.MethodPost, "/v1/admin/hosts", nil)
	r.RemoteAddr = remote
	if name != "" {
		r = r.WithContext(audit.WithActor(r.Context(), audit.Operator, name))
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// While an act is under way its row is in the log already, so that no end of the process can lose
// it. The row is completed once, with what the handler has noted, and by the transaction of the act
// if that writes it.
func TestRowComesBeforeTheAct(t *testing.T) {
	d := openLog(t)
	log := audit.New(audit.Options{DB: d, Slower: testkit.Slower})
	for name, c := range map[string]struct {
		act     func(ctx context.Context, w http.ResponseWriter) error
		outcome audit.Outcome
		reason  string
		rows    int
	}{
		"done": {func(ctx context.Context, _ http.ResponseWriter) error { return nil }, audit.OK, "noted", 1},
		"fails": {func(_ context.Context, w http.ResponseWriter) error {
			w.WriteHeader(http.StatusConflict)
			return nil
		}, audit.Failed, "noted", 1},
		"in a transaction": {func(ctx context.Context, _ http.ResponseWriter) error {
			return db.Transact(ctx, d, nil, func(tx *sql.Tx) error { return audit.Write(ctx, tx) })
		}, audit.OK, "noted", 1},
		"transaction fails": {func(ctx context.Context, w http.ResponseWriter) error {
			err := db.Transact(ctx, d, nil, func(tx *sql.Tx) error {
				if err := audit.Write(ctx, tx); err != nil {
					return err
				}
				return sql.ErrConnDone
			})
			if err == nil {
				return fmt.Errorf("the transaction did not fail")
			}
			w.WriteHeader(http.StatusInternalServerError)
			return nil
		}, audit.Failed, "noted", 1},
		"process ends": {func(context.Context, http.ResponseWriter) error { panic(http.ErrAbortHandler) }, audit.Begun, "", 1},
	} {
		before := len(rows(t, log))
		h := log.Handler(audit.Add, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if now := rows(t, log); len(now) != before+1 || now[0].Outcome != audit.Begun || now[0].Name != "sato" || now[0].Act != audit.Add {
				t.Errorf("%s: while the act is under way the log has %+v", name, now)
			}
			audit.Note(r.Context(), audit.Row{Object: "host " + name, Reason: "noted"})
			testkit.Must(t, c.act(r.Context(), w))
		}))
		func() {
			defer func() { _ = recover() }()
			send(h, "sato", "192.0.2.1:7")
		}()
		now := rows(t, log)
		if len(now) != before+c.rows || now[0].Outcome != c.outcome || now[0].Reason != c.reason {
			t.Errorf("%s: %+v", name, now[0])
		}
		page, err := log.Page(t.Context(), audit.Filter{Outcome: c.outcome, Limit: 1})
		testkit.Must(t, err)
		if len(page.Rows) != 1 || page.Rows[0].ID != now[0].ID {
			t.Errorf("%s: not found by its outcome: %+v", name, page.Rows)
		}
	}
}

// Clients that are not known fill no disk: those that guess cause one row an hour, and others a
// bounded number. Nothing is done for them beyond that, and the other networks go on.
func TestVisitorsCannotFillTheLog(t *testing.T) {
	d := openLog(t)
	log := audit.New(audit.Options{DB: d, Slower: testkit.Slower})
	guessing := log.Handler(audit.Login, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }))
	for range 20 {
		send(guessing, "", "192.0.2.1:7")
	}
	if n := len(rows(t, log)); n != 1 {
		t.Errorf("%d rows of an address that guesses", n)
	}
	done := 0
	acting := log.Handler(audit.Change, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := audit.Begin(r.Context()); err != nil {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		done++
	}))
	const most = 1000 // an hour
	for range most + 50 {
		send(acting, "", "198.51.100.1:7")
	}
	if done != most {
		t.Errorf("%d acts of one address were carried out", done)
	}
	if code := send(acting, "", "203.0.113.1:7"); code != http.StatusOK {
		t.Errorf("another network: %d", code)
	}
}

// Rows go after audit.keep and lose their addresses after audit.addresses, at the start and within
// an hour. Log-ins of programs are written while the service runs and before it has stopped.
func TestKeeping(t *testing.T) {
	source := dbtest.Source(t)
	synctest.Test(t, func(t *testing.T) {
		d, err := db.Open(t.Context(), source)
		testkit.Must(t, err)
		defer d.Close()
		log := audit.New(audit.Options{DB: d, Slower: testkit.Slower})
		write := func(age time.Duration) {
			testkit.Must(t, log.Write(t.Context(), audit.Row{
				At: time.Now().Add(-age), Kind: audit.Operator, Name: age.String(), Address: "192.0.2.1:7", Act: audit.Add, Outcome: audit.OK,
			}))
		}
		const day = 24 * time.Hour
		for _, age := range []time.Duration{0, 23 * time.Hour, day, 9 * day, 11 * day, 29 * day, 31 * day, 30*day - time.Minute, 10*day - time.Minute} {
			write(age)
		}
		check := func(when string, want map[string]bool) {
			t.Helper()
			list := rows(t, log)
			got := map[string]bool{}
			for _, r := range list {
				got[r.Name] = r.Address != ""
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- log.Run(ctx, audit.Keeping{Rows: 30 * day, Addresses: 10 * day}) }()
		synctest.Wait()
		check("at the start", map[string]bool{"0s": true, "23h0m0s": true, "24h0m0s": true, "216h0m0s": true, "239h59m0s": true, "264h0m0s": false, "696h0m0s": false, "719h59m0s": false})
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		check("before the hour", map[string]bool{"0s": true, "23h0m0s": true, "24h0m0s": true, "216h0m0s": true, "239h59m0s": true, "264h0m0s": false, "696h0m0s": false, "719h59m0s": false})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		check("after an hour", map[string]bool{"0s": true, "23h0m0s": true, "24h0m0s": true, "216h0m0s": true, "239h59m0s": false, "264h0m0s": false, "696h0m0s": false})
		log.Try(t.Context(), passwords.Try{Realm: passwords.Account, Name: "alice", Remote: "192.0.2.1:7"}, passwords.Wrong)
		stop()
		testkit.Must(t, <-ended)
		if last := rows(t, log)[0]; last.Name != "alice" || last.Outcome != audit.Failed {
			t.Errorf("a log-in at the end: %+v", last)
		}
		testkit.Must(t, log.Run(ctx, audit.Keeping{})) // for ever
		time.Sleep(365 * day)                          // or the clock is a year ahead
		ctx, stop = context.WithCancel(t.Context())
		go func() { ended <- log.Run(ctx, audit.Keeping{Rows: 30 * day}) }()
		synctest.Wait()
		stop()
		testkit.Must(t, <-ended)
		check("with 0, and by a clock that is ahead", map[string]bool{"0s": true, "23h0m0s": true, "24h0m0s": true, "216h0m0s": true, "239h59m0s": false, "264h0m0s": false, "alice": true})
	})
}
