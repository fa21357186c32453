package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"
)

// TestBatchesWithoutManifest puts batches as robots of old do, by curl and by lftp under any name
// and nothing more, and sees them published, flagged; a foreign tar.gz is kept and says why.
func TestBatchesWithoutManifest(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	curl, lftp := testkit.Tool(t, "curl"), testkit.Tool(t, "lftp")
	c := startService(t, map[string]any{"drop.quiet": "1s"})
	token := strings.Fields(c.run(nil, "robot", "add", batchtest.Robot))[3]
	robot := batchtest.NewRobots(t)
	secret := c.join(robot, token)
	c.run([]string{"2 hosts added"}, "host", "add", "http://127.0.0.1:81/", "http://127.0.0.1:82/")

	robot.Generation = 0 // it knows of no assignment
	first, second := batchtest.Make(t, robot, 1, batchtest.Site("127.0.0.1:81", 30)), batchtest.Make(t, robot, 2, batchtest.Site("127.0.0.1:82", 30))
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	login := "ftp://" + batchtest.Robot + ":" + secret + "@" + c.drop
	sh := func(program string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", program, err, out)
		}
	}
	sh(curl, "-sS", "-T", file("monday.tgz", first.Data), login+"/")
	sh(lftp, "-c", "set ftp:ssl-allow no; open "+login+"; put "+file("19990308.tar.gz", second.Data)+"; put "+file("old.tar.gz", foreignTarGz(t)))

	testkit.Eventually(t, "the batches are taken", func() error {
		out := c.run(nil, "batch", "ls")
		if strings.Count(out, "inferred") != 3 || strings.Count(out, "post-split") != 3 { // one is the buffer's name
			return errors.New(out)
		}
		return nil
	})
	c.run([]string{"published 2 batches"}, "batch", "publish")
	c.run([]string{"published", "manifest", "inferred: none came"}, "batch", "show", string(first.ID))
	c.run([]string{`"inferred": true`}, "batch", "show", string(second.ID), "--json")
	c.run([]string{"foreign_format inferred"}, "batch", "ls", "--state", "quarantined")
}

// join lets the robot join with a token and ask for hosts.
func (c console) join(robot *batchtest.Robots, token string) (secret string) {
	c.Helper()
	body, _ := json.Marshal(wire.JoinRequest{Token: token, Version: "test", PublicKey: robot.Key.Public().(ed25519.PublicKey)})
	var joined wire.JoinResponse
	resp, err := http.Post(c.url+wire.PathJoin, "application/json", bytes.NewReader(body))
	if err == nil {
		err = json.NewDecoder(resp.Body).Decode(&joined)
		resp.Body.Close()
	}
	if err != nil || joined.Secret == "" {
		c.Fatalf("join: %v %v", resp.Status, err)
	}
	req, _ := http.NewRequest(http.MethodPost, c.url+strings.ReplaceAll(wire.PathSubscribe, "{robot}", robot.Name), nil)
	req.SetBasicAuth(robot.Name, joined.Secret)
	if resp, err = http.DefaultClient.Do(req); err != nil || resp.StatusCode >= 300 {
		c.Fatalf("subscribe: %v %v", resp, err)
	}
	resp.Body.Close()
	return joined.Secret
}

// foreignTarGz is a tar.gz as GNU tar makes it, which is no batch.
func foreignTarGz(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "index.html"), []byte("<html>"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), testkit.Tool(t, "tar"), "-C", dir, "-cz", "index.html").Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}
