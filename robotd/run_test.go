package robotd

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

func TestLoadConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "robotd.yaml")
	text := `
contact: mailto:robot@sheaf.test
interval: 30s
window: 22:00-06:00 Asia/Tokyo
upload: {targets: [ftp, http], poll: 5s}
network:
  allow_private: true
  hosts:
    www.a.test: 127.0.0.2:8080
`
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ROBOTD_UPLOAD_POLL", "7s")
	t.Setenv("ROBOTD_CONCURRENCY", "10")
	cfg, err := LoadConfig(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cfg.Plan(); err != nil {
		t.Fatal(err)
	}
	if cfg.Interval != 30*time.Second || len(cfg.Upload.Targets) != 2 || cfg.Upload.Poll != 7*time.Second ||
		cfg.Concurrency != 10 || cfg.Network.Hosts["www.a.test"] != "127.0.0.2:8080" || cfg.Page.Tries != 3 {
		t.Errorf("loaded %+v", cfg)
	}
}

// Every wrong setting is refused by its name and value.
func TestWrongSettings(t *testing.T) {
	for text, want := range map[string]string{
		"contact: robot@example.com":             `settings: contact: "robot@example.com"`,
		"contact: https://your-domain.com/robot": "placeholder",
		"contact: somebody":                      `settings: contact: "somebody"`,
		"interval: soon":                         `"soon"`,
		"interval: -1s":                          `settings: interval: "-1s"`,
		"concurrency: 0":                         `settings: concurrency: "0"`,
		"window: nights":                         `settings: window: "nights"`,
		"for: 2h":                                `settings: for: "2h0m0s"`,
		"log_at: noon":                           `settings: log_at: "noon"`,
		"upload: {targets: [pigeon]}":            `settings: upload.targets: "pigeon"`,
		"upload: {poll: 0s}":                     `settings: upload.poll: "0s": want above 0s`,
		"page: {max_depth: -1}":                  `settings: page.max_depth: "-1": want at least 0`,
		"page: {max_bytes: 1TiB}":                `settings: page.max_bytes: "1099511627776"`,
		"revisit: {at_least: 1h}":                `settings: revisit.at_least: "1h0m0s": want 24h to 1440h`,
		"tls: {verify: never}":                   `settings: tls.verify: "never": want record or refuse`,
		"hands: {listen: nowhere}":               `settings: hands.listen: "nowhere": want host:port, or nothing`,
		"network: {proxy: ftp://x}":              `settings: network.proxy: "ftp://x": want http, https or socks5 URL`,
		"log: {level: loud}":                     `settings: log.level: "loud"`,
		"network: {hosts: {a.test: nowhere}}":    `settings: network.hosts.a.test: "nowhere"`,
		"intervall: 20s":                         "intervall",
		"batch: {level: 12}":                     "there is no key batch.level",
	} {
		file := filepath.Join(t.TempDir(), "robotd.yaml")
		if !strings.HasPrefix(text, "contact") {
			text += "\ncontact: https://sheaf.test/robot"
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		cfg, err := LoadConfig(file, nil)
		if err == nil {
			_, err = cfg.Plan()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %q", text, err, want)
		}
	}
	cfg := DefaultConfig()
	if _, err := cfg.Plan(); err == nil || !strings.Contains(err.Error(), "contact") {
		t.Errorf("settings without a contact: %v", err)
	}
}

// Whatever stands in the settings' file, it is refused with words or can be worked with.
func FuzzLoadConfig(f *testing.F) {
	f.Add([]byte("contact: a@b.jp\nwindow: always\npage:\n  max_depth: 3\nnetwork:\n  hosts: {www.a.test: 127.0.0.1:80}\n"))
	f.Add([]byte("interval: -1s\nlog_at: 25:00\n"))
	f.Add([]byte("page: [1]\nbatch: {size: 1e99}\n? x\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(t.TempDir(), "robotd.yaml")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		cfg, err := LoadConfig(file, nil)
		if err == nil {
			_, err = cfg.Plan()
		}
		if err != nil && len(err.Error()) < 10 {
			t.Errorf("refused without a reason: %v", err)
		}
		if err == nil && (cfg.Concurrency < 1 || cfg.Page.MaxBytes < 1 || cfg.Contact == "") {
			t.Errorf("accepted: %+v", cfg)
		}
	})
}

// The more is in use, the smaller a part of it may lie there as garbage; and what was set
// before is set again at the end.
func TestHoldMemory(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetGCPercent(150)
	defer debug.SetGCPercent(before)
	limit := debug.SetMemoryLimit(-1)
	stop := HoldMemory(1 << 40)
	percent := func() int {
		now := debug.SetGCPercent(100)
		debug.SetGCPercent(now)
		return now
	}
	held := make([]byte, 256<<20)
	testkit.Until(t, "with 256 MiB in use GOGC is the least", func() bool {
		runtime.GC()
		return percent() == leastGarbage
	})
	runtime.KeepAlive(held)
	if debug.SetMemoryLimit(-1) != 1<<40 {
		t.Error("the limit is not set")
	}
	stop()
	if percent() != 150 || debug.SetMemoryLimit(-1) != limit {
		t.Errorf("GOGC %d and limit %d stay", percent(), debug.SetMemoryLimit(-1))
	}
}
