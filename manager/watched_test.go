package manager_test

import (
	"testing"

	"sheaf/internal/testkit"
	"sheaf/manager/hosts"
)

// A host that a consumer watches and that nobody collects is entered as if a robot had found it.
func TestWatchedHostsAreEntered(t *testing.T) {
	t.Parallel()
	s := start(t, dns{"www.a.example.jp": "192.0.2.1"})
	s.join("r1")
	watch := func(kind, host, url, address, body string) {
		t.Helper()
		_, err := s.db.Exec(`INSERT INTO watches (id, account, kind, host, url, address, body, secret, created) VALUES (?, 'reader', ?, ?, ?, ?, ?, 'secret', 1)`,
			host+kind, kind, host, url, address, body)
		testkit.Must(t, err)
	}
	watch("url", "www.a.example.jp", "http://www.a.example.jp/news", "http://www.a.example.jp/news", "")
	watch("host", "www.a.example.jp", "http://www.a.example.jp/", "", "")
	watch("url", "forms.example.jp", "http://forms.example.jp/find?__wb_method=POST&q=1", "http://forms.example.jp/find", "q=1")
	watch("prefix", "www.example.com", "http://www.example.com/b/", "", "")
	watch("host", "www.secret.jp", "http://www.secret.jp/", "", "")
	watch("url", "old.example.jp", "http://old.example.jp/a b", "", "") // no URL by today's rules
	report, err := s.EnterWatched(t.Context())
	if err != nil || report != (hosts.Report{Accepted: 2, Pending: 1, Refused: 1}) {
		t.Errorf("%+v, %v", report, err)
	}
	if report, err := s.EnterWatched(t.Context()); err != nil || report != (hosts.Report{}) {
		t.Errorf("again: %+v, %v", report, err)
	}
	all, err := s.Hosts(t.Context(), hosts.Filter{}, "", 10)
	testkit.Must(t, err)
	for _, h := range all {
		if h.Source != hosts.SourceWatch || len(h.Seeds) == 0 {
			t.Errorf("%+v", h)
		}
		if h.Name == "www.a.example.jp" && (len(h.Robots) != 1 || len(h.Seeds) != 2) {
			t.Errorf("no robot begins at both pages: %+v", h)
		}
	}
}
