package service

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/testkit"
)

// Each of the operators' paths in the API's description answers operators whose role includes the
// one that the description names, and refuses all others. Each request that would change something
// has a row in the audit log, whether it succeeds, fails or is refused.
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
	sent := 0
	send := func(as func(*http.Request), method, path, body string) *httptest.ResponseRecorder {
		sent++
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.RemoteAddr = fmt.Sprintf("[2001:db8:0:%x::1]:7", sent) // the limit of guesses is tested elsewhere
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
			at := strings.NewReplacer("{", "", "}", "").Replace(path)
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

// Each of the other paths in the API's description that changes something has a row of who did it,
// unless it is listed here with the reason. Requests without credentials have none.
func TestRowsOfOthers(t *testing.T) {
	s := newTestService(t)
	addAccount(t, s, "alice", "secret")
	cookie := logIn(t, s, "alice", "secret", "", "/account")
	none := map[string]string{
		"/v1/cdx": "reads", "/v1/coverage": "reads",
		"/v1/robots/{robot}/record": "reports", "/servlets/record": "reports", "/v1/robots/{robot}/submitlog": "reports", "/servlets/submitlog": "reports",
		"/v1/robots/{robot}/heartbeat": "reports", "/v1/robots/{robot}/handovers": "reports", "/v1/robots/{robot}/addresses": "reports", "/v1/robots/{robot}/report": "reports",
		"/v1/batches/uploads/": "in the ledger", "/v1/batches/uploads/{batch}": "in the ledger", "/v1/batches/{batch}/manifest": "in the ledger",
	}
	secret := sha256.Sum256([]byte("its secret"))
	_, err := s.state.db.ExecContext(t.Context(), `INSERT INTO robots (name, secret_hash, created) VALUES ('r1', ?, 1)`, secret[:])
	testkit.Must(t, err)
	log := audit.New(audit.Options{DB: s.state.db})
	count := func() int {
		page, err := log.Page(t.Context(), audit.Filter{Limit: 10_000})
		testkit.Must(t, err)
		return len(page.Rows)
	}
	newest := func() audit.Row {
		page, err := log.Page(t.Context(), audit.Filter{Limit: 1})
		testkit.Must(t, err)
		return page.Rows[0]
	}
	send := func(method, path string, as func(*http.Request)) int {
		at := strings.NewReplacer("{id}", "w1", "{secret}", "s1", "{token}", "00", "{form}", ".warc.gz", "{robot}", "r1", "{batch}", "b1").Replace(path)
		r := httptest.NewRequest(method, at, strings.NewReader("name=x&act=token&password=x"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.RemoteAddr = fmt.Sprintf("[2001:db8:0:%x::1]:7", len(path))
		as(r)
		w := httptest.NewRecorder()
		s.router.ServeHTTP(w, r)
		return w.Code
	}
	seen := 0
	for path, item := range description(t).Paths.Map() {
		for method, op := range item.Operations() {
			if op.Extensions["x-role"] != nil || audit.Reads(method) {
				continue
			}
			seen++
			security := []string{"account"} // the description's default
			if op.Security != nil {
				security = nil
				for _, one := range *op.Security {
					for name := range one {
						security = append(security, name)
					}
				}
			}
			before := count()
			want := audit.Row{Kind: audit.Visitor}
			as := func(*http.Request) {}
			switch {
			case slices.Contains(security, "robot"):
				as, want = func(r *http.Request) { r.SetBasicAuth("r1", "its secret") }, audit.Row{Kind: audit.Robot, Name: "r1"}
			case len(security) > 0:
				as, want = func(r *http.Request) { r.Header.Set("Cookie", cookie) }, audit.Row{Kind: audit.Account, Name: "alice"}
				send(method, path, func(*http.Request) {})
				if n := count(); n != before {
					t.Errorf("%s %s without credentials has a row: %+v", method, path, newest())
					before = n
				}
			}
			code := send(method, path, as)
			rows := count() - before
			switch why := none[path]; {
			case why != "" && rows != 0:
				t.Errorf("%s %s, which %s, has a row: %+v", method, path, why, newest())
			case why == "" && rows != 1:
				t.Errorf("%s %s: %d, and %d rows", method, path, code, rows)
			case why == "" && (newest().Kind != want.Kind || want.Name != "" && newest().Name != want.Name):
				t.Errorf("%s %s: %d, %+v", method, path, code, newest())
			case why == "" && newest().Outcome == audit.Begun:
				t.Errorf("%s %s: the row is not complete: %+v", method, path, newest())
			}
		}
	}
	if seen < 30 {
		t.Errorf("the description has %d such paths", seen)
	}
}

// What somebody writes is text on the page and in a spreadsheet. Long texts are cut. Without the
// log nothing is changed.
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
