package service

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/testkit"
)

// Each of the operators' paths in the API's description answers operators whose role includes the one
// that the description names, and refuses all others. Each request that would change something has a
// row in the audit log, whether it succeeds, fails or is refused.
func TestRolesAndAudit(t *testing.T) {
	s := newTestService(t)
	addAccount(t, s, "alice", "secret")
	admin := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+s.OperatorToken()) }
	basic := func(name, password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(name, password) }
	}
	type asker struct {
		as   func(*http.Request)
		role operators.Role // empty: none
		name string
	}
	askers := map[string]asker{
		"nobody": {as: func(*http.Request) {}}, "account": {as: basic("alice", "secret")}, "token": {admin, operators.Admin, "token"},
	}
	send := func(as func(*http.Request), method, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.RemoteAddr = fmt.Sprintf("[2001:db8:%x::1]:7", len(path)*7+len(body)) // the limit of guesses is tested elsewhere
		r.Header.Set("Content-Type", "application/json")
		as(r)
		w := httptest.NewRecorder()
		s.router.ServeHTTP(w, r)
		return w
	}
	for _, role := range operators.Roles() {
		name, password := "the-"+string(role), "long enough for "+string(role)
		made := send(admin, http.MethodPost, "/v1/admin/operators", fmt.Sprintf(`{"name":%q,"role":%q,"password":%q}`, name, role, password))
		if made.Code != http.StatusCreated {
			t.Fatalf("%d %s", made.Code, made.Body)
		}
		askers[string(role)] = asker{basic(name, password), role, name}
	}
	log := audit.New(audit.Options{DB: s.state.db})
	newest := func() (r audit.Row) {
		page, err := log.Page(t.Context(), audit.Filter{Limit: 1})
		testkit.Must(t, err)
		if len(page.Rows) > 0 {
			r = page.Rows[0]
		}
		return r
	}
	asked := 0
	for path, item := range description(t).Paths.Map() {
		for method, op := range item.Operations() {
			role, _ := op.Extensions["x-role"].(string)
			forOperators := op.Security != nil && len(*op.Security) == 1 && (*op.Security)[0]["operator"] != nil
			if forOperators != (role != "") {
				t.Errorf("%s %s: x-role is %q: each path for operators names one, and no other", method, path, role)
			}
			if role == "" || path == "/board/live" { // it answers until its reader goes away
				continue
			}
			at := strings.NewReplacer("{script}", "live-00.js", "{", "", "}", "").Replace(path)
			for who, a := range askers {
				before := newest().ID
				code := send(a.as, method, at, "{").Code
				asked++
				want := a.role.Includes(operators.Role(role)) && a.role != ""
				if refused := code == http.StatusUnauthorized || code == http.StatusForbidden; refused == want {
					t.Errorf("%s %s (%s) as %s: %d", method, path, role, who, code)
				}
				if audit.Reads(method) || a.role == "" {
					continue
				}
				switch row := newest(); {
				case row.ID == before || row.Name != a.name || row.Kind != audit.Operator:
					t.Errorf("%s %s as %s: no row in the audit log; the newest is %+v", method, path, who, row)
				case (row.Outcome == audit.Refused) == want:
					t.Errorf("%s %s as %s: %s", method, path, who, row.Outcome)
				}
			}
		}
	}
	if asked < 200 {
		t.Errorf("%d requests: the description names few paths for operators", asked)
	}
}

// What somebody writes is text on the page and in a spreadsheet. Long texts are cut. Without the log
// nothing is changed.
func TestAuditOfBadInput(t *testing.T) {
	s := newTestService(t)
	admin := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+s.OperatorToken()) }
	ask := func(method, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		admin(r)
		w := httptest.NewRecorder()
		s.router.ServeHTTP(w, r)
		return w
	}
	for _, reason := range []string{"=cmd|'/C calc'!A0", "<script>alert(1)</script>", strings.Repeat("長", 4000)} {
		w := ask(http.MethodPost, "/v1/admin/takedowns", fmt.Sprintf(`{"host":"www.example.jp","unknown":true,"reason":%q}`, reason))
		if w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if page := ask(http.MethodGet, "/board/audit?act=takedown&object=EXAMPLE.jp", "").Body.String(); strings.Contains(page, "<script>alert") || !strings.Contains(page, "&lt;script&gt;alert") {
		t.Error("the page shows a script as one")
	}
	csv := ask(http.MethodGet, "/v1/audit?format=csv&act=takedown", "").Body.String()
	if !strings.Contains(csv, `'=cmd`) || len(csv) > 5000 {
		t.Errorf("%.2000s", csv)
	}
	if w := ask(http.MethodGet, "/v1/audit?act=burn", ""); w.Code != http.StatusBadRequest {
		t.Errorf("an act that is none: %d", w.Code)
	}
	_, err := s.state.db.ExecContext(t.Context(), `ALTER TABLE audit RENAME TO away`)
	testkit.Must(t, err)
	w := ask(http.MethodPost, "/v1/admin/takedowns/lift", `{"host":"www.example.jp","reason":"lifted"}`)
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "audit_away") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
