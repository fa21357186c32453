package service

import (
	"maps"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/serve/servetest"
)

func TestMain(m *testing.M) { testkit.InMemory(m) }

// testConfig loads the settings of a service on free ports, without FTP. Unless settings say
// otherwise, it does nothing because of the time of day. Its passwords are quick to hash, and
// its database may be slow.
func testConfig(t testing.TB, settings map[string]any) Config {
	t.Helper()
	all := map[string]any{
		"http.listen": "127.0.0.1:0", "metrics": "", "download.listen": "", "drop.listen": "",
		"publish.window": "never", "balance.at": "", "uploads.full": 100,
	}
	maps.Copy(all, settings)
	cfg, err := Load("", all)
	testkit.Must(t, err)
	cfg.Login.Passwords, cfg.Slower = servetest.Cheap, testkit.Slower
	return cfg
}
