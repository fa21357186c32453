package httpd_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/serve/account"
)

// An account that has used up the bytes of the day is told when to come again, in words and by
// Retry-After.
func TestQuotaIsTold(t *testing.T) {
	s := newSite(t)
	const file = "/pub/jp/ac/waseda/www/20261121.tar.gz"
	if resp, _ := s.do(t, http.MethodGet, "jp", file); resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	quota := int64(1)
	if _, err := s.Accounts.Change(t.Context(), "jp", account.Change{Quota: &quota}); err != nil {
		t.Fatal(err)
	}
	resp, body := s.do(t, http.MethodGet, "jp", file)
	next := testkit.NextMidnight()
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != next.Format(http.TimeFormat) ||
		!strings.Contains(string(body), next.Format(time.RFC3339)) || !strings.Contains(string(body), "quota_used_up") {
		t.Errorf("%s, %v: %s", resp.Status, resp.Header, body)
	}
	if resp, _ := s.do(t, http.MethodGet, "jp", "/pub/README"); resp.StatusCode != http.StatusOK {
		t.Errorf("README: %s", resp.Status)
	}
}
