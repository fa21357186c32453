package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/viper"
	yaml "go.yaml.in/yaml/v3"

	"sheaf/archive/upkeep"
	"sheaf/cmd/sheaf/service"
	"sheaf/internal/db"
	"sheaf/internal/testkit"
	"sheaf/test/metricstest"
)

// demo is the installation for one fault: a service as a process, and the command line.
type demo struct {
	testing.TB
	out io.Writer

	program string // path of sheaf
	dir     string // of the settings file and the data directory
	data    string
	at      addresses
	source  string // of the database
	process *testkit.Process
}

// addresses are where the service listens, host:port.
type addresses struct{ http, download, drop, metrics string }

func newDemo(t testing.TB, out io.Writer) *demo {
	at := testkit.Addresses(t, 4)
	d := &demo{TB: t, out: out, program: testkit.Build(t, "sheaf/cmd/sheaf"), dir: t.TempDir(), at: addresses{at[0], at[1], at[2], at[3]}}
	d.data = filepath.Join(d.dir, "data")
	return d
}

// tell writes a line for people.
func (d *demo) tell(what, format string, args ...any) {
	fmt.Fprintf(d.out, "   %-8s %s\n", what, fmt.Sprintf(format, args...))
}

// quote writes a text below a line, indented.
func (d *demo) quote(text string) {
	for line := range strings.Lines(strings.TrimSpace(text)) {
		fmt.Fprintf(d.out, "            %s\n", strings.TrimRight(line, "\n"))
	}
}

// begin writes the settings file and starts the service.
func (d *demo) begin(settings map[string]any) {
	d.Helper()
	all := map[string]any{
		"data": d.data, "http.listen": d.at.http, "download.listen": d.at.download, "drop.listen": d.at.drop, "metrics": d.at.metrics,
		"poll": "50ms", "stop": "1s", "drop.quiet": "1s", "drop.cut_off": "2s", "publish.window": "never", "balance.at": "", "balance.during": false,
		"uploads.full": 100,
	}
	maps.Copy(all, settings)
	d.data = all["data"].(string)
	d.source = filepath.Join(d.data, "sheaf.db")
	if url, ok := all["database.url"]; ok {
		d.source = url.(string)
	}
	nested := viper.New()
	for key, value := range all {
		nested.Set(key, value)
	}
	text, err := yaml.Marshal(nested.AllSettings())
	testkit.Must(d, err)
	testkit.Must(d, os.WriteFile(d.config(), text, 0o600))
	d.start()
	d.tell("service", "%s, operators' pages at %s/board/", d.url(), d.url())
}

func (d *demo) config() string { return filepath.Join(d.dir, "sheaf.yaml") }
func (d *demo) url() string    { return "http://" + d.at.http }

func (d *demo) token() string {
	d.Helper()
	token, err := service.ReadToken(d.data)
	testkit.Must(d, err)
	return token
}

// start starts the service, and waits until it has the leases that a service always holds.
func (d *demo) start() {
	d.Helper()
	d.process = testkit.Start(d, filepath.Join(d.dir, "log"), d.command("serve"))
	d.process.Ready(d, func() error {
		resp, err := http.Get("http://" + d.at.metrics)
		if err == nil {
			resp.Body.Close()
		}
		return err
	})
	d.until(1, "sheaf_lease_held", "lease", "keeper")
	d.until(1, "sheaf_lease_held", "lease", "urls")
}

// command returns a sheaf command with the installation's settings, and without settings from the
// environment.
func (d *demo) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(d.Context(), d.program, append(args, "--config", d.config())...)
	cmd.Dir = d.dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SHEAF_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	return cmd
}

// sheaf runs a command as an operator types it. It shows the command and its output, and returns
// the output.
func (d *demo) sheaf(args ...string) string {
	d.Helper()
	var shown []string
	for _, a := range args {
		if strings.ContainsAny(a, " ;") {
			a = "'" + a + "'"
		}
		shown = append(shown, a)
	}
	d.tell("$", "sheaf %s", strings.Join(shown, " "))
	out, err := d.command(args...).CombinedOutput()
	if err != nil {
		d.Fatalf("sheaf %q: %v\n%s", args, err, out)
	}
	d.quote(string(out))
	return string(out)
}

func (d *demo) scrape() metricstest.Families { return metricstest.Scrape(d, d.at.metrics) }

// until waits until a metric has a value, and returns all metrics.
func (d *demo) until(want float64, name string, labels ...string) metricstest.Families {
	d.Helper()
	return metricstest.Eventually(d, d.at.metrics, want, name, labels...)
}

// database lets f work with the service's database.
func (d *demo) database(f func(*sql.DB) error) {
	d.Helper()
	in, err := db.Open(d.Context(), d.source)
	testkit.Must(d, err)
	defer in.Close()
	testkit.Must(d, f(in))
}

// exec changes the service's database, as if time had passed or another part of the service had
// written.
func (d *demo) exec(query string, args ...any) {
	d.Helper()
	d.database(func(in *sql.DB) error {
		_, err := in.ExecContext(d.Context(), query, args...)
		return err
	})
}

// later makes batches, robots and the store's copy older, as if time had passed since.
func (d *demo) later(by time.Duration) {
	d.Helper()
	d.tell("time", "everything in the database is made %v older", by)
	d.exec(`UPDATE ingest_batches SET received_at = received_at - ?1, entered_at = entered_at - ?1`, by.Milliseconds())
	d.exec(`UPDATE robots SET seen = seen - ?`, by.Milliseconds())
	d.database(func(in *sql.DB) error {
		scrub, err := upkeep.ReadScrub(d.Context(), in)
		if err != nil {
			return err
		}
		scrub.Began, scrub.Copied = scrub.Began.Add(-by), scrub.Copied.Add(-by)
		text, err := json.Marshal(scrub)
		if err == nil {
			_, err = in.ExecContext(d.Context(), `UPDATE scrub SET state = ?`, string(text))
		}
		return err
	})
}

// file writes a file and returns its path.
func (d *demo) file(name string, data []byte) string {
	d.Helper()
	path := filepath.Join(d.dir, name)
	testkit.Must(d, os.MkdirAll(filepath.Dir(path), 0o755))
	testkit.Must(d, os.WriteFile(path, data, 0o600))
	return path
}

// importPage imports a WARC with one page that has this URL and body.
func (d *demo) importPage(page string, body []byte) {
	d.Helper()
	answer := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + string(body)
	var warc bytes.Buffer
	fmt.Fprintf(&warc, "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: %s\r\nWARC-Date: 2026-11-20T03:00:00Z\r\n"+
		"WARC-Record-ID: <urn:uuid:5c0ef7a0-4c3b-4d22-9f7a-000000000001>\r\nContent-Type: application/http; msgtype=response\r\n"+
		"Content-Length: %d\r\n\r\n%s\r\n\r\n", page, len(answer), answer)
	d.sheaf("archive", "import", d.file("page.warc", warc.Bytes()))
}

// objects returns the directory of the object store.
func (d *demo) objects() string { return filepath.Join(d.data, "store") }

// takeStore takes the store's directory away, as when its disk is taken out. back brings the
// directory back and restarts the service.
func (d *demo) takeStore() (back func()) {
	d.Helper()
	away := d.objects() + ".away"
	testkit.Must(d, os.Mkdir(away, 0o755))
	move := func(from, to string) {
		entries, err := os.ReadDir(from)
		testkit.Must(d, err)
		for _, e := range entries {
			testkit.Must(d, os.Rename(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())))
		}
	}
	move(d.objects(), away)
	testkit.Must(d, os.Remove(d.objects())) // the service's own handle leads nowhere now
	d.tell("fault", "the directory of the object store is gone")
	return func() {
		d.Helper()
		testkit.Must(d, os.Mkdir(d.objects(), 0o755))
		move(away, d.objects())
		d.tell("cure", "the directory is mounted again, and the service restarted")
		testkit.Must(d, d.process.Stop())
		d.start()
	}
}
