// Package dbtest gives tests a database of their own, in SQLite or in PostgreSQL.
//
// Tests of migrations use SQLite or Postgres, which give an empty database. All other tests use
// Source or Place, which copy a database that was migrated once: that takes a tenth of the time.
package dbtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx", for statements about the server itself

	"sheaf/internal/db"
	"sheaf/internal/testkit"
)

// Environment of the tests.
const (
	// Server is the URL of a PostgreSQL server for the tests, which create databases there. Without
	// it the tests of each package start a server.
	Server = "SHEAF_TEST_POSTGRES"
	// Engine, set to postgres, makes Source give PostgreSQL databases.
	Engine = "SHEAF_TEST_DATABASE"
)

// Source returns a database for db.Open with today's schema and nothing else: the path of a file
// or, if Engine says so, the URL of a PostgreSQL database.
func Source(t testing.TB) string {
	t.Helper()
	if os.Getenv(Engine) == "postgres" {
		return migratedPostgres(t)
	}
	path := SQLite(t)
	Place(t, path)
	return path
}

// Place writes a SQLite file that has today's schema and nothing else.
func Place(t testing.TB, path string) {
	t.Helper()
	data, err := migrated()
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(path, data, 0o600))
}

// migrated returns the content of a SQLite file that db.Open has made.
var migrated = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "sheaf-sqlite-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "sheaf.db")
	if err := migrate(path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// migrate brings a database's schema up to date. For SQLite, the one file then has all of it, since
// the last connection to close empties the write-ahead log.
func migrate(source string) error {
	d, err := db.Open(context.Background(), source)
	if err != nil {
		return err
	}
	return d.Close()
}

// SQLite returns the path of a file that does not exist yet.
func SQLite(t testing.TB) string { return filepath.Join(t.TempDir(), "sheaf.db") }

// Postgres returns the URL of an empty PostgreSQL database.
func Postgres(t testing.TB) string {
	t.Helper()
	return copyPostgres(t, server(t), "template1") // PostgreSQL's own, which is empty
}

// server returns the URL of the tests' PostgreSQL server.
func server(t testing.TB) string {
	t.Helper()
	if given := os.Getenv(Server); given != "" {
		return given
	}
	return one(t)
}

// copyPostgres copies a database at the server, and returns the copy's URL. The copy is dropped
// when the test ends.
func copyPostgres(t testing.TB, server, from string) string {
	t.Helper()
	name, source, err := newPostgres(server, from)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, drop(server, name)) })
	return source
}

// newPostgres copies a database at the server, and returns the copy's name and URL.
func newPostgres(server, from string) (name, source string, err error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", "", err
	}
	name = "test_" + strings.ToLower(rand.Text())
	u.Path = "/" + name
	return name, u.String(), atServer(server, "CREATE DATABASE "+name+" TEMPLATE "+from)
}

// drop removes a database of the server and ends its connections.
func drop(server, name string) error {
	return atServer(server, "DROP DATABASE "+name+" WITH (FORCE)")
}

func atServer(server, what string) error {
	admin, err := sql.Open("pgx", server)
	if err != nil {
		return err
	}
	defer admin.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := admin.ExecContext(ctx, what); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// templates has a func() (name string, err error) for each server, by the server's URL. The func
// returns the name of the database that migratedPostgres copies.
var templates sync.Map

// migratedPostgres returns the URL of a PostgreSQL database with today's schema. The first call
// migrates a template, which all calls copy until the process ends. If testkit.AtExit cannot drop
// the template at the end, the database is empty instead.
func migratedPostgres(t testing.TB) string {
	t.Helper()
	server := server(t)
	once, _ := templates.LoadOrStore(server, sync.OnceValues(func() (from string, err error) {
		var name, source string
		if !testkit.AtExit(func() { _ = drop(server, name) }) { // a server of this process has ended by then
			return "template1", nil
		}
		if name, source, err = newPostgres(server, "template1"); err == nil {
			err = migrate(source)
		}
		return name, err
	}))
	from, err := once.(func() (string, error))()
	testkit.Must(t, err)
	return copyPostgres(t, server, from)
}

// shared is the server of the tests of this process, if one was started.
var shared struct {
	sync.Mutex // guards what follows
	*Cluster
}

// one returns the URL of the server that all tests of the process share. The server ends after the
// last test, or with the test if the package's TestMain is not testkit.InMemory.
func one(t testing.TB) string {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.Cluster == nil {
		c := newCluster(t)
		if !testkit.AtExit(c.remove) {
			t.Cleanup(c.remove)
			c.begin(t)
			return c.URL
		}
		c.begin(t)
		shared.Cluster = c
	}
	return shared.URL
}

// Cluster is a test's own PostgreSQL server. It must not be used concurrently.
type Cluster struct {
	URL string

	bin, dir, host, port string
	attr                 *syscall.SysProcAttr
	server               *testkit.Process // nil: stopped
}

// Start runs a server on loopback until the test ends. It needs Debian's postgresql.
func Start(t testing.TB) *Cluster {
	t.Helper()
	c := newCluster(t)
	t.Cleanup(c.remove)
	c.begin(t)
	return c
}

// StartSmall is Start for a server whose tables are on a tmpfs with these options. The write-ahead
// log is elsewhere, because a server without room for it stops.
func StartSmall(t testing.TB, options string) *Cluster {
	t.Helper()
	c := newCluster(t)
	t.Cleanup(func() { os.RemoveAll(c.dir) }) // after the disk is unmounted
	testkit.Must(t, os.Mkdir(c.data(), 0o700))
	if id := c.attr.Credential; id != nil {
		options += fmt.Sprintf(",mode=700,uid=%d,gid=%d", id.Uid, id.Gid)
	}
	if err := testkit.MountSmall(t, c.data(), options); err != nil {
		testkit.Missing(t, "needs to mount a tmpfs, which root may: %v", err)
	}
	t.Cleanup(c.remove)
	c.begin(t, "--waldir="+filepath.Join(c.dir, "wal"))
	return c
}

// Fill fills the disk of StartSmall's tables until free is called.
func (c *Cluster) Fill(t testing.TB) (free func()) {
	t.Helper()
	name := filepath.Join(c.data(), "else")
	f, err := os.Create(name)
	testkit.Must(t, err)
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return func() { testkit.Must(t, os.Remove(name)) }
}

// newCluster makes a folder for a server and does not start it.
func newCluster(t testing.TB) *Cluster {
	t.Helper()
	at := testkit.Addresses(t, 1)[0]
	c := &Cluster{bin: programs(t), URL: "postgres://sheaf@" + at + "/postgres?sslmode=disable"}
	c.host, c.port, _ = net.SplitHostPort(at) // it has both
	// Only root may enter the parents of t.TempDir, and PostgreSQL does not run as root.
	var err error
	if c.dir, err = os.MkdirTemp("", "sheaf-postgres-"); err != nil {
		t.Fatal(err)
	}
	c.attr = account(t, c.dir)
	return c
}

// remove ends the server and removes its folder.
func (c *Cluster) remove() {
	c.end(syscall.SIGQUIT) // at once, since the databases are deleted
	os.RemoveAll(c.dir)
}

// begin makes the databases' folder and starts the server.
func (c *Cluster) begin(t testing.TB, options ...string) {
	t.Helper()
	initdb := exec.Command(filepath.Join(c.bin, "initdb"), append(options, "--pgdata="+c.data(), "--username=sheaf", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")...)
	initdb.SysProcAttr, initdb.Dir = c.attr, c.dir
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	c.Start(t)
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// Start runs the server again after Stop.
func (c *Cluster) Start(t testing.TB) {
	t.Helper()
	server := exec.Command(filepath.Join(c.bin, "postgres"), "-D", c.data(), "-p", c.port, "-c", "listen_addresses="+c.host,
		"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "shared_buffers=32MB", "-c", "max_connections=200")
	server.SysProcAttr, server.Dir = c.attr, c.dir
	var err error
	c.server, err = testkit.Launch(filepath.Join(c.dir, "log"), server)
	testkit.Must(t, err)
	c.await(t)
}

// Stop ends the server and all its connections. Committed transactions stay.
func (c *Cluster) Stop() { c.end(syscall.SIGINT) }

func (c *Cluster) end(how syscall.Signal) {
	if c.server == nil {
		return
	}
	_ = c.server.Process.Signal(how) // it may have ended
	_ = c.server.Ended()             // the status of a server that was told to end says nothing
	c.server = nil
}

// await waits until the server answers.
func (c *Cluster) await(t testing.TB) {
	t.Helper()
	db, err := sql.Open("pgx", c.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c.server.Ready(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return db.PingContext(ctx)
	})
}

// programs returns the directory of PostgreSQL's programs. Debian puts it outside PATH.
func programs(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path)
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		testkit.Missing(t, "needs PostgreSQL's initdb (Debian: postgresql), which is not installed")
	}
	return filepath.Dir(found[len(found)-1])
}

// account returns process attributes for the server's programs. If the test runs as root, the
// programs run as the user postgres, who then owns dir.
func account(t testing.TB, dir string) *syscall.SysProcAttr {
	t.Helper()
	attr := &syscall.SysProcAttr{}
	if os.Getuid() != 0 {
		return attr
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		testkit.Missing(t, "needs the user postgres, as PostgreSQL does not run as root: %v", err)
	}
	ids := [2]int{}
	for n, text := range []string{u.Uid, u.Gid} {
		if ids[n], err = strconv.Atoi(text); err != nil {
			t.Fatal(fmt.Errorf("user postgres: %w", err))
		}
	}
	if err := os.Chown(dir, ids[0], ids[1]); err != nil {
		t.Fatal(err)
	}
	attr.Credential = &syscall.Credential{Uid: uint32(ids[0]), Gid: uint32(ids[1])}
	return attr
}
