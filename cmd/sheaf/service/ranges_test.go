package service

import (
	"net/http"
	"testing"

	"sheaf/internal/testkit"
)

// A Range of a unit that the service does not know is ignored, whatever is asked for.
func TestUnknownRangeUnit(t *testing.T) {
	t.Parallel()
	s := run(t, map[string]any{
		"data": t.TempDir(), "http.listen": "127.0.0.1:0", "metrics": "", "download.listen": "", "drop.listen": "", "stop": "1s", "access.anonymous": "*",
	})
	for _, path := range []string{"/pub/README", "/v1/openapi.yaml", "/install.sh", "/v1/cdx?url=www.example.jp"} {
		for value, want := range map[string]int{"lines=1-2": 200, "seconds=1-": 200, "nonsense": 200, "Bytes=0-": 206} {
			req, err := http.NewRequest(http.MethodGet, s.Addresses().HTTP+path, nil)
			testkit.Must(t, err)
			req.Header.Set("Range", value)
			resp, err := http.DefaultClient.Do(req)
			testkit.Must(t, err)
			resp.Body.Close()
			if value == "Bytes=0-" && resp.ContentLength == 0 {
				continue // of nothing there are no ranges
			}
			if resp.StatusCode != want {
				t.Errorf("%s, Range: %s: %s, want %d", path, value, resp.Status, want)
			}
		}
	}
}
