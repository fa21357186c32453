package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// ask sends a request with HTTP Basic, and gives the answer's status and body.
func (c console) ask(path, name, password string) (int, string, http.Header) {
	c.Helper()
	req, err := http.NewRequestWithContext(c.Context(), http.MethodGet, c.url+path, nil)
	if err != nil {
		c.Fatal(err)
	}
	req.SetBasicAuth(name, password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.Fatal(err)
	}
	return resp.StatusCode, string(body), resp.Header
}

// hostList gives a robot's list and its generation.
func (c console) hostList(name, secret string) string {
	c.Helper()
	status, body, header := c.ask(strings.ReplaceAll(wire.PathList, "{robot}", name), name, secret)
	if status != http.StatusOK {
		c.Fatalf("the robot's list: %d %s", status, body)
	}
	text := "generation " + header.Get(wire.HeaderGeneration)
	for l, err := range wire.ReadHostList(strings.NewReader(body), 1<<20) {
		if err != nil {
			c.Fatal(err)
		}
		text += " " + l.URL
	}
	return text
}

// takePart has a robot join and subscribe, and gives its secret.
func (c console) takePart(name string) string {
	c.Helper()
	token := strings.Fields(c.run(nil, "robot", "add", name))[3]
	body, err := json.Marshal(wire.JoinRequest{Token: token, Version: "test", PublicKey: make(ed25519.PublicKey, ed25519.PublicKeySize)})
	if err != nil {
		c.Fatal(err)
	}
	resp, err := http.Post(c.url+wire.PathJoin, "application/json", bytes.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	defer resp.Body.Close()
	var joined wire.JoinResponse
	if err := json.NewDecoder(resp.Body).Decode(&joined); err != nil || joined.Secret == "" {
		c.Fatalf("join: %s, %v", resp.Status, err)
	}
	req, err := http.NewRequestWithContext(c.Context(), http.MethodPost, c.url+strings.ReplaceAll(wire.PathSubscribe, "{robot}", name), nil)
	if err != nil {
		c.Fatal(err)
	}
	req.SetBasicAuth(name, joined.Secret)
	if resp, err := http.DefaultClient.Do(req); err != nil || resp.StatusCode >= 300 {
		c.Fatalf("subscribe: %v, %v", resp, err)
	}
	return joined.Secret
}

// TestBackupAndRestore loses an installation, and puts its backup into new ones of both kinds:
// robots and consumers go on with what they have, and operators with their token.
func TestBackupAndRestore(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	c := startService(t, nil)
	secret := c.takePart("waseda")
	c.run(nil, "host", "add", "http://127.0.0.1:81/", "http://127.0.0.1:82/start")
	c.run(nil, "account", "add", "alice", "--domain", "jp", "--password", "wonderland")
	hosts := c.hostList("waseda", secret)
	if !strings.Contains(hosts, "127.0.0.1:82/start") {
		t.Fatalf("the robot's list: %s", hosts)
	}
	control, err := db.Open(t.Context(), filepath.Join(c.data, "sheaf.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	for n, state := range []wire.State{wire.StatePublished, wire.StateReceived} {
		_, err := control.ExecContext(t.Context(), `INSERT INTO ingest_batches (id, batch, robot, protocol, sha256, size, hosts, state, received_at, entered_at)
			VALUES (?1, ?1, 'waseda', 'http', '', 1, 1, ?2, 1, 1)`, fmt.Sprintf("waseda-20261121T020000Z-%d", n+1), string(state))
		if err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "sheaf.backup")
	c.run([]string{"secrets"}, "backup", file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup: %v, %v", info, err)
	}
	if _, err := c.try("backup", file); err == nil || !strings.Contains(err.Error(), "there already") {
		t.Errorf("over another backup: %v", err)
	}

	for kind, settings := range map[string]map[string]any{"sqlite": {}, "postgres": {"database.url": dbtest.Postgres(t)}} {
		t.Run(kind, func(t *testing.T) {
			data := t.TempDir()
			c := console{T: t, data: data}
			args := []string{"restore", file}
			for key, value := range settings {
				args = append(args, "--set", key+"="+value.(string))
			}
			restore := func(from string) (string, error) {
				var out bytes.Buffer
				root := rootCommand()
				root.SetOut(&out)
				root.SetArgs(append([]string{args[0], from, "--data", data}, args[2:]...))
				err := root.ExecuteContext(t.Context())
				return out.String(), err
			}
			whole, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			broken := filepath.Join(t.TempDir(), "broken")
			for what, text := range map[string][]byte{"cut off": whole[:len(whole)*3/4], "empty": nil, "no backup": []byte("hello")} {
				if err := os.WriteFile(broken, text, 0o600); err != nil {
					t.Fatal(err)
				}
				if _, err := restore(broken); err == nil {
					t.Errorf("a backup that is %s was taken", what)
				}
			}
			if out, err := restore(file); err != nil || !strings.Contains(out, "1 batches under way were left out") {
				t.Fatalf("%s, %v", out, err)
			}
			if _, err := restore(file); err == nil || !strings.Contains(err.Error(), "not empty") {
				t.Errorf("once more: %v", err)
			}
			all := maps.Clone(settings)
			all["data"] = data
			c = startService(t, all)
			c.data = data // with the operators' token of old
			c.run([]string{"waseda"}, "robot", "ls")
			c.run([]string{"command ", "restore", "backup of 2"}, "audit", "--kind", "command")
			if list := c.run([]string{"Z-1"}, "batch", "ls"); strings.Contains(list, "Z-2") {
				t.Errorf("a batch whose file is gone is to be gone on with:\n%s", list)
			}
			if again := c.hostList("waseda", secret); again != hosts {
				t.Errorf("the robot's list: %s, was %s", again, hosts)
			}
			if status, body, _ := c.ask("/v1/hosts", "alice", "wonderland"); status != http.StatusOK {
				t.Errorf("alice gets %d %s", status, body)
			}
			if status, _, _ := c.ask("/v1/hosts", "alice", "not hers"); status != http.StatusUnauthorized {
				t.Errorf("with another password: %d", status)
			}
			c.run([]string{"robotd join"}, "robot", "add", "jaist") // and life goes on
		})
	}
}

// A key that robots do not know is never put over by a backup's, nor the other way round; and
// nothing is put beside a running service.
func TestRestoreKeepsKeys(t *testing.T) {
	c := startService(t, nil)
	file := filepath.Join(t.TempDir(), "sheaf.backup")
	c.run(nil, "backup", file)
	other := startService(t, nil)
	key, err := os.ReadFile(filepath.Join(other.data, "receipt.key"))
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	if err := os.WriteFile(filepath.Join(elsewhere, "receipt.key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	for data, says := range map[string]string{other.data: "in use", elsewhere: "new data directory"} {
		root := rootCommand()
		root.SetArgs([]string{"restore", file, "--data", data})
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("into %s: %v, want %q", data, err, says)
		}
	}
	if now, err := os.ReadFile(filepath.Join(other.data, "receipt.key")); err != nil || !bytes.Equal(now, key) {
		t.Errorf("its key is another: %v", err)
	}
}
