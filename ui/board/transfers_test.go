package board_test

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
	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
	"sheaf/ui/board"
)

func TestTransfers(t *testing.T) {
	d, err := db.Open(t.Context(), dbtest.Source(t))
	testkit.Must(t, err)
	defer d.Close()
	log := transfers.New(d)
	for i, tr := range []transfers.Transfer{
		{Who: "etl", Bytes: 7276922, Took: 18 * time.Second, Direction: transfers.Upload, Protocol: "ftp", Outcome: transfers.OK},
		{Who: "jaist", Bytes: 6431092, Took: 21 * time.Second, Direction: transfers.Upload, Protocol: "ftp", Outcome: transfers.OK},
		{Who: "waseda", Bytes: 5509423, Took: 99 * time.Second, Direction: transfers.Upload, Protocol: "http", Outcome: transfers.OK},
		{Who: "reader", Bytes: 500, Took: time.Second, Direction: transfers.Download, Protocol: "http", Outcome: transfers.Aborted},
	} {
		tr.At, tr.Name, tr.Remote = time.Date(2026, 11, 21, 9, i, 0, 0, time.UTC), "name", "192.0.2.1:7"
		testkit.Must(t, log.Record(t.Context(), tr))
	}
	r := mux.NewRouter()
	board.RegisterTransfers(r, func(_ operators.Role, _ audit.Act, h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, r)
		})
	}, log, nil, time.UTC, slog.New(slog.DiscardHandler))
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
