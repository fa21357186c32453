package whole

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/test/servicetest"
)

// A robot is told the link to its page with a heartbeat, and its status has it. The page needs no
// log-in, and shows what the robot does.
func TestRobotKnowsItsPage(t *testing.T) {
	t.Parallel()
	s := servicetest.Start(t, servicetest.Quiet())
	web := httptest.NewServer(&sharedSite{pages: 3})
	t.Cleanup(web.Close)
	robot := s.Robot("waseda", "www.example.jp", web.Listener.Addr().String())
	testkit.Must(t, robot.Cycle(t.Context()))
	status, err := robot.Status()
	testkit.Must(t, err)
	if !strings.HasPrefix(status.Page, s.At.HTTP+"/robot/waseda/") {
		t.Fatalf("the status has the page %q", status.Page)
	}
	resp, err := http.Get(status.Page)
	testkit.Must(t, err)
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	if resp.StatusCode != http.StatusOK || !strings.Contains(string(page), "It visits 1 host.") {
		t.Errorf("%s: %s", resp.Status, page)
	}
}
