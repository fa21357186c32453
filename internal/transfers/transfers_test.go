package transfers_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/operators"
	"sheaf/internal/transfers"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// table10 returns a log with the transfers of table 10 of the paper, and one aborted download.
func table10(t *testing.T) *transfers.Log {
	t.Helper()
	d, err := db.Open(t.Context(), dbtest.Source(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	log := transfers.New(d)
	for i, tr := range []transfers.Transfer{
		{Who: "etl", Bytes: 7276922, Took: 18 * time.Second, Direction: transfers.Upload, Protocol: "ftp", Outcome: transfers.OK},
		{Who: "jaist", Bytes: 6431092, Took: 21 * time.Second, Direction: transfers.Upload, Protocol: "ftp", Outcome: transfers.OK},
		{Who: "waseda", Bytes: 5509423, Took: 99 * time.Second, Direction: transfers.Upload, Protocol: "http", Outcome: transfers.OK},
		{Who: "reader", Bytes: 500, Took: time.Second, Direction: transfers.Download, Protocol: "http", Outcome: transfers.Aborted},
	} {
		tr.At = start.Add(time.Duration(i) * time.Minute)
		tr.Name, tr.Remote = "name", "192.0.2.1:7"
		if err := log.Record(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
	}
	return log
}

func TestTable10(t *testing.T) {
	totals, err := table10(t).Totals(t.Context(), transfers.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := transfers.WriteTable(&b, totals); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"name bytes seconds bytes/s way transfers",
		"etl 7276922 18.0 404k ftp upload 1",
		"jaist 6431092 21.0 306k ftp upload 1",
		"waseda 5509423 99.0 56k http upload 1",
		"reader 500 1.0 500 http download 1",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", b.String(), strings.Join(want, "\n"))
	}
}

func TestListFilters(t *testing.T) {
	log := table10(t)
	for name, c := range map[string]struct {
		f    transfers.Filter
		want string
	}{
		"all, newest first": {transfers.Filter{}, "reader waseda jaist etl"},
		"who":               {transfers.Filter{Who: "etl"}, "etl"},
		"direction":         {transfers.Filter{Direction: transfers.Download}, "reader"},
		"since":             {transfers.Filter{Since: start.Add(time.Minute)}, "reader waseda jaist"},
		"limit":             {transfers.Filter{Limit: 2}, "reader waseda"},
		"before":            {transfers.Filter{Before: 3}, "jaist etl"},
		"none":              {transfers.Filter{Who: "nobody"}, ""},
	} {
		list, err := log.List(t.Context(), c.f)
		if err != nil {
			t.Fatal(err)
		}
		var who []string
		for _, tr := range list {
			who = append(who, tr.Who)
		}
		if got := strings.Join(who, " "); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestHTTP(t *testing.T) {
	r := mux.NewRouter()
	transfers.Register(r, func(_ operators.Role, _ audit.Act, h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, r)
		})
	}, table10(t), nil, time.UTC, slog.New(slog.DiscardHandler))
	get := func(query, auth string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		req := httptest.NewRequest("GET", api.PathTransfers+query, nil)
		req.Header.Set("Authorization", auth)
		r.ServeHTTP(rec, req)
		return rec
	}
	if rec := get("", ""); rec.Code != 401 {
		t.Errorf("without the operator's word: %d", rec.Code)
	}
	rec := get("?limit=3", "operator")
	var doc transfers.Document
	if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Totals) != 4 || len(doc.Transfers) != 3 || doc.Next != 2 || doc.Transfers[0].Outcome != transfers.Aborted {
		t.Errorf("got %s", rec.Body)
	}
	if got := doc.Totals[0]; got.Bytes != 7276922 || got.Seconds != 18 || got.Rate <= 0 {
		t.Errorf("first total: %+v", got)
	}
	if rec := get("?limit=3&before=2", "operator"); !strings.Contains(rec.Body.String(), `"who":"jaist"`) || strings.Contains(rec.Body.String(), `"next"`) {
		t.Errorf("second page: %s", rec.Body)
	}
	for _, q := range []string{"?limit=0", "?since=yesterday", "?direction=up", "?before=x"} {
		if rec := get(q, "operator"); rec.Code != 400 || rec.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", q, rec.Code, rec.Body)
		}
	}
}
