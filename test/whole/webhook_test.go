package whole

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/serve/watch"
)

var script = regexp.MustCompile("(?s)```sh (\\w+\\.sh)\n(.*?)```")

// TestWebhookExamples does what WEBHOOKS.md tells consumers to do, with curl and openssl: it begins
// a watch, receives its call and checks that it is the service's, and rejects a forged one.
func TestWebhookExamples(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for _, program := range []string{"sh", "curl", "openssl", "od", "tr"} {
		testkit.Tool(t, program)
	}
	text, err := os.ReadFile("../../serve/watch/WEBHOOKS.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, m := range script.FindAllSubmatch(text, -1) {
		if err := os.WriteFile(filepath.Join(dir, string(m[1])), m[2], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pages := &newsSite{words: "a crane"}
	web := httptest.NewServer(pages)
	defer web.Close()
	c := &consumer{t: t}
	c.hook = httptest.NewServer(c)
	defer c.hook.Close()
	robot := startWatch(t, c, web.Listener.Addr().String())

	out, err := exec.CommandContext(t.Context(), "sh", filepath.Join(dir, "watch.sh"), c.url, "c1:"+c.password, base+"/news.html", c.hook.URL).Output()
	var w watch.Watch
	if err == nil {
		err = json.Unmarshal(out, &w)
	}
	if err != nil || w.Secret == "" {
		t.Fatalf("watch.sh: %v: %s", err, out)
	}
	if err := robot.Cycle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := robot.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.wait(1)
	c.mu.Lock()
	came := c.calls[0]
	c.mu.Unlock()
	verify := func(secret, id, at, signature string, body []byte) bool {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(dir, "verify.sh"), secret, id, at, signature)
		cmd.Stdin = bytes.NewReader(body)
		var complaint bytes.Buffer
		cmd.Stderr = &complaint
		err := cmd.Run()
		if complaint.Len() > 0 {
			t.Errorf("verify.sh says %s", &complaint)
		}
		return err == nil
	}
	id, at, signature := came.header.Get("webhook-id"), came.header.Get("webhook-timestamp"), came.header.Get("webhook-signature")
	if !verify(w.Secret, id, at, signature, came.body) {
		t.Errorf("the service's own call is refused: %v %s", came.header, came.body)
	}
	for what, forged := range map[string]bool{
		"another body":      verify(w.Secret, id, at, signature, append(bytes.Clone(came.body), ' ')),
		"another time":      verify(w.Secret, id, at+"0", signature, came.body),
		"another name":      verify(w.Secret, id+"x", at, signature, came.body),
		"another secret":    verify("whsec_bm90IHRoZSBzZWNyZXQ=", id, at, signature, came.body),
		"another signature": verify(w.Secret, id, at, "v1,", came.body),
	} {
		if forged {
			t.Errorf("a call with %s is taken", what)
		}
	}
}
