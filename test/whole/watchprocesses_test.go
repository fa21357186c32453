package whole

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sheaf/cmd/sheaf/service"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/manager"
	"sheaf/serve/account"
	"sheaf/serve/client"
	"sheaf/serve/watch"
)

func TestMain(m *testing.M) { testkit.InMemory(m) }

// TestThreeChangesInACycle runs the installed programs, sheaf and robotd, as processes of their
// own. A page changes three times during one cycle of the robot. Each change is told, although the
// publish window is shut. The robot is killed in between and continues.
func TestThreeChangesInACycle(t *testing.T) {
	if testing.Short() {
		t.Skip("takes twenty seconds, mostly waiting")
	}
	t.Parallel()
	pages := &newsSite{words: "a crane"}
	web := httptest.NewServer(pages)
	defer web.Close()
	c := &consumer{t: t}
	c.hook = httptest.NewServer(c)
	defer c.hook.Close()
	dir := t.TempDir()

	at := testkit.Addresses(t, 3)
	data := filepath.Join(dir, "service")
	program := exec.Command(testkit.Build(t, "sheaf/cmd/sheaf"), "serve", "--set", "data="+data, "--set", "http.listen="+at[0], "--set", "metrics=", "--set", "download.listen="+at[1],
		"--set", "drop.listen="+at[2], "--set", "publish.window=never", "--set", "poll=50ms", "--set", "stop=1s", "--set", "watch.private_webhooks=true",
		"--set", "uploads.full=100")
	running := testkit.Start(t, "", program)
	c.url = "http://" + at[0]
	var op *client.Client
	running.Ready(t, func() error {
		token, err := service.ReadToken(data)
		if err != nil {
			return err
		}
		if op, err = client.Operator(c.url, token); err != nil {
			return err
		}
		return op.Do(t.Context(), http.MethodGet, api.PathAdminRobots, nil, nil)
	})
	do := func(path string, in, out any) {
		t.Helper()
		if err := op.Do(t.Context(), http.MethodPost, path, in, out); err != nil {
			t.Fatal(err)
		}
	}
	var admitted manager.AdmitResponse
	do(api.PathAdminRobots, manager.AdmitRequest{Name: "r1"}, &admitted)
	made := account.NewAccount{Account: account.Account{Name: "c1", Domains: []string{"*"}}}
	do(api.PathAdminAccounts, made, &made)
	c.password = made.Password

	robotd, robot, settings := testkit.Build(t, "sheaf/cmd/robotd"), filepath.Join(dir, "robot"), filepath.Join(dir, "robotd.yaml")
	if out, err := exec.CommandContext(t.Context(), robotd, "join", c.url, admitted.Token, "--data", robot).CombinedOutput(); err != nil {
		t.Fatalf("robotd join: %v: %s", err, out)
	}
	text := fmt.Sprintf(`data: %s
contact: https://robots.example.ac.jp/
interval: 10ms
window: always
cycle: 8s
heartbeat: 1s
express: 500ms
watch: {every: 500ms}
disk: {free: 0}
upload: {poll: 50ms}
network: {allow_private: true, hosts: {%s: "%s"}}
`, robot, host, web.Listener.Addr())
	testkit.Must(t, os.WriteFile(settings, []byte(text), 0o600))
	life := testkit.Start(t, robot+".log", exec.Command(robotd, "--config", settings))
	testkit.Eventually(t, "the robot subscribes", func() error {
		var list manager.RobotsResponse
		if err := op.Do(t.Context(), http.MethodGet, api.PathAdminRobots, nil, &list); err != nil {
			return err
		}
		if len(list.Robots) != 1 || !list.Robots[0].Subscribed {
			return fmt.Errorf("%+v", list.Robots)
		}
		return nil
	})
	do(api.PathAdminHosts, manager.HostsRequest{Hosts: []string{base + "/"}, Addresses: map[string][]string{host: {"127.0.0.1"}}}, nil)
	if status, text := c.do(http.MethodPost, c.url+"/v1/watches", watch.Wish{URL: base + "/news.html", Webhook: c.hook.URL}); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}

	told := len(c.wait(1)) // the page is new
	change := func() watch.Notice {
		t.Helper()
		pages.say(fmt.Sprint("change ", told))
		all := c.wait(told + 1)
		told++
		return all[told-1]
	}
	life.Kill()
	testkit.Start(t, robot+".log", exec.Command(robotd, "--config", settings))
	change() // the next cycle finds this one: too little is known yet of how often the page changes
	cycle := func() (n int64) {
		t.Helper()
		testkit.Eventually(t, "the robot tells its cycle", func() error {
			text, err := os.ReadFile(filepath.Join(robot, "cycle.json"))
			if err != nil {
				return err
			}
			var saved struct{ Number int64 }
			err = json.Unmarshal(text, &saved)
			n = saved.Number
			return err
		})
		return n
	}
	for tries := 1; ; tries++ {
		before := cycle() // at the first attempt it has found the change, and most of it is left
		if tries > 1 {
			testkit.Until(t, "a cycle begins", func() bool { return cycle() > before })
			before = cycle()
		}
		began := time.Now()
		for range 3 {
			n := change()
			if n.What != watch.PageChanged || n.URL != base+"/news.html" {
				t.Fatalf("%+v", n)
			}
		}
		if after := cycle(); after == before {
			t.Logf("three changes were told within %v of cycle %d, at try %d", time.Since(began).Round(time.Second), after, tries)
			break
		}
		if tries == 4 {
			t.Fatalf("three changes never came in one cycle, in four tries")
		}
	}
	seen := map[string]bool{}
	for _, n := range c.wait(told) {
		if seen[n.ID] {
			t.Errorf("%s was told twice", n.ID)
		}
		seen[n.ID] = true
		if status, text := c.do(http.MethodGet, strings.Replace(n.Page, "/http", "id_/http", 1), nil); status != http.StatusOK {
			t.Errorf("%s: %d %s", n.Page, status, text)
		}
	}
	if len(seen) != told {
		t.Errorf("%d notices of %d changes", len(seen), told)
	}
}
