package service

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/audit"
	"sheaf/internal/passwords"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/ui/login"
)

// liar is an OpenID provider that answers as a test has it.
type liar struct {
	*httptest.Server
	key, other *rsa.PrivateKey
	token      func(nonce string) string // the ID token; empty: none
	info       map[string]any            // of the UserInfo endpoint
	asked      url.Values                // how the browser came to the provider
	verified   bool                      // the code came with the verifier of the challenge
}

func newLiar(t *testing.T) *liar {
	t.Helper()
	l := new(liar)
	for _, key := range []**rsa.PrivateKey{&l.key, &l.other} {
		made, err := rsa.GenerateKey(rand.Reader, 2048)
		testkit.Must(t, err)
		*key = made
	}
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		testkit.Must(t, json.NewEncoder(w).Encode(v))
	}
	paths := http.NewServeMux()
	paths.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{
			"issuer": l.URL, "authorization_endpoint": l.URL + "/authorize", "token_endpoint": l.URL + "/token", "userinfo_endpoint": l.URL + "/info",
			"jwks_uri": l.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	paths.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"keys": []any{map[string]any{
			"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "k", "n": encode(l.key.N.Bytes()), "e": encode(big.NewInt(int64(l.key.E)).Bytes()),
		}}})
	})
	paths.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		l.verified = l.asked.Get("code_challenge_method") == "S256" && encode(sum[:]) == l.asked.Get("code_challenge")
		out := map[string]any{"access_token": "a", "token_type": "Bearer"}
		if id := l.token(l.asked.Get("nonce")); id != "" {
			out["id_token"] = id
		}
		answer(w, out)
	})
	paths.HandleFunc("/info", func(w http.ResponseWriter, _ *http.Request) { answer(w, l.info) })
	l.Server = httptest.NewServer(paths)
	t.Cleanup(l.Close)
	return l
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// sign returns a JSON Web Token with claims. The algorithm "none" has no signature, and HS256 one
// that is made of the client's secret.
func (l *liar) sign(t *testing.T, alg string, key *rsa.PrivateKey, claims map[string]any) string {
	t.Helper()
	head, err := json.Marshal(map[string]string{"alg": alg, "kid": "k"})
	testkit.Must(t, err)
	body, err := json.Marshal(claims)
	testkit.Must(t, err)
	signed := encode(head) + "." + encode(body)
	sum := sha256.Sum256([]byte(signed))
	switch alg {
	case "none":
		return signed + "."
	case "HS256":
		mac := hmac.New(sha256.New, []byte("secret"))
		mac.Write([]byte(signed))
		return signed + "." + encode(mac.Sum(nil))
	}
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	testkit.Must(t, err)
	return signed + "." + encode(signature)
}

// An ID token lets somebody in only if the provider of the settings has made it for this service,
// for this log-in and now. Any other answer begins no session.
func TestIDTokensThatLie(t *testing.T) {
	l := newLiar(t)
	cfg := testConfig(t, map[string]any{
		"data": t.TempDir(), "login.oidc.issuer": l.URL, "login.oidc.client_id": "web", "login.oidc.client_secret": "secret",
		"login.oidc.rules": []map[string]any{{"claim": "sub", "value": "1", "account": "alice"}},
	})
	cfg.Login.OIDC.Rules = []login.Rule{{Claim: "sub", Value: "1", Account: "alice"}}
	s, err := New(t.Context(), cfg, slog.New(slog.DiscardHandler))
	testkit.Must(t, err)
	t.Cleanup(s.close)
	addAccount(t, s, "alice", "secret")
	with := func(more map[string]any) func(nonce string) map[string]any {
		return func(nonce string) map[string]any {
			now := time.Now().Unix()
			claims := map[string]any{"iss": l.URL, "aud": "web", "sub": "1", "nonce": nonce, "iat": now, "exp": now + 300}
			maps.Copy(claims, more)
			return claims
		}
	}
	honest := with(nil)
	for name, c := range map[string]struct {
		alg    string
		key    *rsa.PrivateKey
		claims func(nonce string) map[string]any
		info   map[string]any
		want   int
	}{
		"honest":             {"RS256", l.key, honest, nil, http.StatusSeeOther},
		"another nonce":      {"RS256", l.key, with(map[string]any{"nonce": "of another log-in"}), nil, http.StatusBadGateway},
		"no nonce":           {"RS256", l.key, with(map[string]any{"nonce": ""}), nil, http.StatusBadGateway},
		"another issuer":     {"RS256", l.key, with(map[string]any{"iss": "https://login.example.com"}), nil, http.StatusBadGateway},
		"for another client": {"RS256", l.key, with(map[string]any{"aud": "other"}), nil, http.StatusBadGateway},
		"expired":            {"RS256", l.key, with(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), nil, http.StatusBadGateway},
		"another key":        {"RS256", l.other, honest, nil, http.StatusBadGateway},
		"no signature":       {"none", nil, honest, nil, http.StatusBadGateway},
		"client's secret":    {"HS256", nil, honest, nil, http.StatusBadGateway},
		"no ID token":        {"", nil, nil, nil, http.StatusBadGateway},
		"info of another":    {"RS256", l.key, honest, map[string]any{"sub": "2"}, http.StatusBadGateway},
		"claims in the info": {"RS256", l.key, with(map[string]any{"sub": "2"}), map[string]any{"sub": "2", "email": "1", "groups": "1"}, http.StatusForbidden},
	} {
		begin := browse(s, http.MethodGet, "/login/oidc?next=/account", "", "", nil)
		at, err := url.Parse(begin.Header().Get("Location"))
		testkit.Must(t, err)
		l.asked, l.info, l.verified = at.Query(), c.info, false
		if l.info == nil {
			l.info = map[string]any{"sub": "1"}
		}
		l.token = func(nonce string) string {
			if c.alg == "" {
				return ""
			}
			return l.sign(t, c.alg, c.key, c.claims(nonce))
		}
		flight := begin.Result().Cookies()[0]
		w := browse(s, http.MethodGet, "/login/oidc/callback?"+url.Values{"code": {"c"}, "state": {l.asked.Get("state")}}.Encode(), "", "", nil, "Cookie", flight.Name+"="+flight.Value)
		if w.Code != c.want {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if !l.verified {
			t.Errorf("%s: the code was exchanged without the verifier of its challenge", name)
		}
		if session := strings.Contains(fmt.Sprint(w.Header()["Set-Cookie"]), "sheaf_session="); session != (c.want == http.StatusSeeOther) {
			t.Errorf("%s: %v", name, w.Header())
		}
	}
}

// Every door at which names, passwords, tokens or codes can be tried closes for who guesses, before
// AddressBurst tries, and stays open for other networks.
func TestEveryDoorClosesForGuessers(t *testing.T) {
	s := newTestService(t)
	accounts := addAccount(t, s, "alice", "secret")
	_, good, err := accounts.CreateToken(t.Context(), "alice", account.Token{Name: "x", Uses: account.Uses()[:1]})
	testkit.Must(t, err)
	near := func(n int) string {
		return good[:len(good)-3] + string([]byte{'7', 'a' + byte(n/26), 'a' + byte(n%26)})
	}
	form := func(values url.Values) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			testkit.Must(t, setBody(r, values.Encode()))
		}
	}
	doors := map[string]struct {
		method, path string
		try          func(n int) func(*http.Request)
	}{
		"password of an account": {http.MethodGet, "/v1/hosts", func(n int) func(*http.Request) { return basicOf("alice", fmt.Sprint(n)) }},
		"token of an account":    {http.MethodGet, "/v1/hosts", func(n int) func(*http.Request) { return bearerOf(near(n)) }},
		"token as a password": {http.MethodGet, "/v1/hosts", func(n int) func(*http.Request) {
			return basicOf("alice", near(n))
		}},
		"names of accounts":       {http.MethodGet, "/v1/hosts", func(n int) func(*http.Request) { return basicOf(fmt.Sprint("name", n), "x") }},
		"operators' token":        {http.MethodGet, "/v1/audit", func(n int) func(*http.Request) { return bearerOf(fmt.Sprint(n)) }},
		"password of an operator": {http.MethodGet, "/v1/audit", func(n int) func(*http.Request) { return basicOf("sato", fmt.Sprint(n)) }},
		"log-in page": {http.MethodPost, "/login", func(n int) func(*http.Request) {
			return form(url.Values{"name": {"alice"}, "password": {fmt.Sprint(n)}})
		}},
		"robots' secrets": {http.MethodGet, "/v1/robots/r1/list", func(n int) func(*http.Request) { return basicOf("r1", fmt.Sprint(n)) }},
		"robots' join": {http.MethodPost, "/v1/robots/join", func(n int) func(*http.Request) {
			return func(r *http.Request) {
				r.Header.Set("Content-Type", "application/json")
				testkit.Must(t, setBody(r, fmt.Sprintf(`{"token":"%d","version":"1","public_key":%q}`, n, base64.StdEncoding.EncodeToString(make([]byte, 32)))))
			}
		}},
	}
	network := 0
	for name, door := range doors {
		network++
		send := func(network, n int) int {
			r := httptest.NewRequest(door.method, door.path, nil)
			r.RemoteAddr = fmt.Sprintf("[2001:db8:%x::1]:7", network)
			door.try(n)(r)
			w := httptest.NewRecorder()
			s.router.ServeHTTP(w, r)
			if w.Code < 400 {
				t.Fatalf("%s: a guess was right: %d", name, w.Code)
			}
			return w.Code
		}
		closed := -1
		for n := range passwords.AddressBurst + 2 {
			if send(network, n) == http.StatusTooManyRequests {
				closed = n
				break
			}
		}
		if closed < passwords.Burst {
			t.Errorf("%s: closed after %d tries", name, closed)
		}
		if code := send(0x100+network, 0); code == http.StatusTooManyRequests {
			t.Errorf("%s is closed for another network", name)
		}
	}
}

func basicOf(name, password string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth(name, password) }
}

func bearerOf(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// setBody gives a request another body.
func setBody(r *http.Request, body string) error {
	made, err := http.NewRequest(r.Method, "/", strings.NewReader(body))
	if err == nil {
		r.Body, r.ContentLength, r.GetBody = made.Body, made.ContentLength, made.GetBody
	}
	return err
}

// A page of another site changes nothing, by whichever route, in the name of who has logged in with
// this browser. Only robots' paths do not look where a request comes from: they take robots'
// secrets alone.
func TestNothingChangesFromOtherSites(t *testing.T) {
	s := newTestService(t)
	addAccount(t, s, "alice", "secret")
	cookies := []string{logIn(t, s, "alice", "secret", "", "/account"), logIn(t, s, "ops", s.OperatorToken(), "", "/board/")}
	variables := strings.NewReplacer("{id}", "w1", "{token}", "00", "{form}", ".warc.gz", "{name}", "nobody", "{robot}", "r1", "{batch}", "b1", "{secret}", "s1")
	asked := 0
	testkit.Must(t, s.router.Walk(func(r *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		template, err := r.GetPathTemplate()
		testkit.Must(t, err)
		path := variables.Replace(pattern.ReplaceAllString(template, "{$1}"))
		methods, _ := r.GetMethods()
		for _, method := range methods {
			if kind := kindOf(method, path); audit.Reads(method) || kind == "robots" || path == "/v1/robots/join" {
				continue
			}
			for _, cookie := range cookies {
				for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"}} {
					for _, media := range []string{"application/x-www-form-urlencoded", "application/json", "text/plain"} {
						w := browse(s, method, path, "", "", url.Values{"name": {"x"}}, "Cookie", cookie, header[0], header[1], "Content-Type", media)
						if asked++; w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "another site") {
							t.Errorf("%s %s with %v as %s: %d", method, template, header, media, w.Code)
						}
					}
				}
			}
		}
		return nil
	}))
	if asked < 1000 {
		t.Errorf("%d requests: few routes change something", asked)
	}
	for _, cookie := range cookies {
		if at := map[bool]string{true: "/account", false: "/board/"}[cookie == cookies[0]]; browse(s, http.MethodGet, at, "", "", nil, "Cookie", cookie).Code != http.StatusOK {
			t.Errorf("%s: the session has ended", at)
		}
	}
}

// A session that somebody has planted in the browser before the log-in is worth nothing after it,
// nor does it outlast a log-out.
func TestPlantedSessions(t *testing.T) {
	s := newTestService(t)
	addAccount(t, s, "alice", "secret")
	addAccount(t, s, "mallory", "secret")
	for what, planted := range map[string]string{"made up": "sheaf_session=" + strings.Repeat("A", 43), "of another account": logIn(t, s, "mallory", "secret", "", "/account")} {
		w := browse(s, http.MethodPost, "/login", "", "", url.Values{"name": {"alice"}, "password": {"secret"}}, "Cookie", planted)
		own := cookieOf(t, w)
		if own == planted {
			t.Errorf("%s: the log-in keeps the token", what)
		}
		if w := browse(s, http.MethodGet, "/account", "", "", nil, "Cookie", planted); w.Code != http.StatusSeeOther {
			t.Errorf("%s: who has planted it is logged in: %d", what, w.Code)
		}
		browse(s, http.MethodPost, "/logout", "", "", nil, "Cookie", own)
		if w := browse(s, http.MethodGet, "/account", "", "", nil, "Cookie", own); w.Code != http.StatusSeeOther {
			t.Errorf("%s: goes on after the log-out: %d", what, w.Code)
		}
	}
}

// Wherever a log-in is said to lead, the browser stays at this service.
func TestLogInsLeadNowhereElse(t *testing.T) {
	s := newTestService(t)
	addAccount(t, s, "alice", "secret")
	base, err := url.Parse("https://archive.example.jp/login")
	testkit.Must(t, err)
	for _, next := range []string{
		"https://evil.example/", "//evil.example", "///evil.example", `/\evil.example`, `\\evil.example`, "/\t/evil.example", "/%09/evil.example", "/%2f/evil.example", "/%5cevil.example",
		"https:evil.example", "javascript:alert(1)", "/./\\evil.example", "/..//evil.example", "/account\r\nLocation: https://evil.example", "@evil.example", ".evil.example", "/@evil.example",
	} {
		for _, w := range []*httptest.ResponseRecorder{
			browse(s, http.MethodPost, "/login", "", "", url.Values{"name": {"alice"}, "password": {"secret"}, "next": {next}}),
			browse(s, http.MethodPost, "/login?next="+url.QueryEscape(next), "", "", url.Values{"name": {"alice"}, "password": {"secret"}}),
		} {
			to := w.Header().Get("Location")
			at, err := base.Parse(to)
			if err != nil || at.Scheme != "https" || at.Host != base.Host || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n\t") {
				t.Errorf("%q leads to %q (%d)", next, to, w.Code)
			}
		}
	}
}
