package service

import (
	"bufio"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// An operator's browser is sent the figures of the board in its language. The stop of the service
// ends that at once; it does not wait for the listeners to go.
func TestLiveFigures(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	cfg := testConfig(t, map[string]any{"data": t.TempDir(), "stop": "1h"})
	s, err := New(t.Context(), cfg, slog.New(slog.DiscardHandler))
	testkit.Must(t, err)
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(running) }()
	listen := func(lang string) *bufio.Scanner {
		r, err := http.NewRequest(http.MethodGet, s.Addresses().HTTP+"/board/live", nil)
		testkit.Must(t, err)
		r.Header.Set("Authorization", "Bearer "+s.OperatorToken())
		r.Header.Set("Accept-Language", lang)
		resp, err := http.DefaultClient.Do(r)
		testkit.Must(t, err)
		t.Cleanup(func() { resp.Body.Close() })
		if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%s %v", resp.Status, resp.Header)
		}
		return bufio.NewScanner(resp.Body)
	}
	all := map[string]*bufio.Scanner{"quarantine": listen("en"), "隔離": listen("ja")}
	for word, lines := range all {
		for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
		}
		if text := lines.Text(); !strings.Contains(text, `"live-buffers":`) || !strings.Contains(text, word) {
			t.Errorf("%s is not in %s", word, text)
		}
	}
	stop()
	for _, lines := range all {
		for lines.Scan() {
		}
	}
	testkit.Must(t, <-ended)
}
