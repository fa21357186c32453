package service

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/serve/account"
)

// browse sends what a browser sends of an operator, of an account, or of nobody.
func browse(s *Service, method, path, user, password string, form url.Values, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
	r.Header.Set("Accept", "text/html")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if user != "" {
		r.SetBasicAuth(user, password)
	}
	w := httptest.NewRecorder()
	s.router.ServeHTTP(w, r)
	return w
}

// Every page of the board is for operators alone, who log in by a browser; what they do needs a form
// of this site.
func TestBoardIsForOperators(t *testing.T) {
	s := newTestService(t)
	accounts, err := account.NewAccounts(s.state.db, nil, account.DefaultCost)
	testkit.Must(t, err)
	_, password, err := accounts.Create(t.Context(), account.Account{Name: "reader", Domains: []string{"*"}}, "")
	testkit.Must(t, err)
	get := []string{"/board/", "/board/transfers", "/board/transfers?by=month", "/board/batches?state=quarantined", "/board/hosts"}
	post := []string{"/board/publish", "/board/batches", "/board/hosts"}
	for _, path := range get {
		if w := browse(s, http.MethodGet, path, "", "", nil); w.Code != 303 || !strings.HasPrefix(w.Header().Get("Location"), "/login?next=%2Fboard%2F") {
			t.Errorf("GET %s as nobody: %d %v", path, w.Code, w.Header())
		}
		if w := browse(s, http.MethodGet, path, "", "", nil, "Accept", "*/*"); w.Code != 401 || !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Bearer ") {
			t.Errorf("GET %s as a program without a token: %d %v", path, w.Code, w.Header())
		}
		for who, want := range map[string]int{"reader": 401, "operator": 200} {
			secret := map[string]string{"reader": password, "operator": s.OperatorToken()}[who]
			w := browse(s, http.MethodGet, path, who, secret, nil)
			if w.Code != want || want == 401 && !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Basic ") {
				t.Errorf("GET %s as %q: %d %v", path, who, w.Code, w.Header())
			}
		}
	}
	for _, path := range post {
		if w := browse(s, http.MethodPost, path, "", "", nil); w.Code != 401 {
			t.Errorf("POST %s as nobody: %d", path, w.Code)
		}
		if w := browse(s, http.MethodPost, path, "operator", s.OperatorToken(), nil, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"); w.Code != 403 {
			t.Errorf("POST %s from another site: %d", path, w.Code)
		}
	}
	if w := browse(s, http.MethodPost, "/board/batches", "operator", s.OperatorToken(), url.Values{"act": {"release"}, "batch": {"<b>"}}); w.Code != 404 {
		t.Errorf("a batch that is not there: %d %s", w.Code, w.Body)
	}
	if w := browse(s, http.MethodPost, "/board/batches", "operator", s.OperatorToken(), url.Values{"act": {"burn"}}); w.Code != 400 {
		t.Errorf("an act that is none: %d %s", w.Code, w.Body)
	}
}

// Hosts that wait are decided by a form. Names that are markup, which are refused where they come in,
// are shown as text.
func TestHostsAreDecidedOnTheBoard(t *testing.T) {
	s := newTestService(t)
	_, err := s.state.db.ExecContext(t.Context(), `INSERT INTO hosts (name, state, source, created, grp)
		VALUES ('www.example.jp', 'pending', 'waseda', 0, 'www.example.jp'), ('<script>alert(1)</script>', 'pending', '<b>x</b>', 0, 'x')`)
	testkit.Must(t, err)
	page := browse(s, http.MethodGet, "/board/hosts", "ops", s.OperatorToken(), nil).Body.String()
	if !strings.Contains(page, "www.example.jp") || strings.Contains(page, "<script>") || strings.Contains(page, "<b>x") {
		t.Errorf("%s", page)
	}
	w := browse(s, http.MethodPost, "/board/hosts", "ops", s.OperatorToken(), url.Values{"act": {"refused"}, "host": {"www.example.jp"}})
	if w.Code != http.StatusSeeOther {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	var state string
	testkit.Must(t, s.state.db.QueryRowContext(context.Background(), `SELECT state FROM hosts WHERE name = 'www.example.jp'`).Scan(&state))
	if state != "refused" {
		t.Errorf("the host is %s", state)
	}
}
