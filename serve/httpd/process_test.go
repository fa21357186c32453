package httpd_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/archive/store"
	"sheaf/internal/testkit"
	"sheaf/serve/servetest"
)

// startServer runs a program until the test ends. It returns when the program is ready.
func startServer(t testing.TB, ready func(log string) bool, program string, args ...string) *testkit.Process {
	t.Helper()
	p := testkit.Start(t, "", exec.Command(program, args...))
	t.Cleanup(func() { p.Stop() }) // so that it ends its own processes
	p.Ready(t, func() error {
		text, err := os.ReadFile(p.Log)
		if err == nil && !ready(string(text)) {
			err = errors.New("it does not say so")
		}
		return err
	})
	return p
}

// serveSheaf runs `sheaf serve` over a data directory. Everybody may fetch the hosts of jp.
func serveSheaf(t testing.TB, program, data string, settings ...string) *servetest.Process {
	t.Helper()
	args := []string{"serve", "--data", data, "--set", "database.fresh=true"}
	for _, s := range append([]string{"http.listen=127.0.0.1:0", "metrics=", "download.listen=", "drop.listen=", "access.anonymous=jp"}, settings...) {
		args = append(args, "--set", s)
	}
	addr := ""
	p := startServer(t, func(log string) bool {
		_, after, ok := strings.Cut(log, "http=http")
		if ok {
			addr, _, ok = strings.Cut(after, " ")
		}
		return ok
	}, program, args...)
	scheme, addr, _ := strings.Cut(addr, "://")
	return &servetest.Process{Addr: addr, Secure: scheme == "s", PIDs: []int{p.Cmd.Process.Pid}, Kill: p.Kill}
}

// overTLS makes a certificate, and returns the settings with which serveSheaf speaks TLS, and those
// of nginx.
func overTLS(t testing.TB) (sheaf []string, nginx string) {
	cert, key := testkit.CertificateFiles(t, t.TempDir(), "localhost")
	return []string{"http.cert=" + cert, "http.key=" + key}, " ssl_certificate " + cert + ";\n ssl_certificate_key " + key + ";\n"
}

// listens is for startServer: the server is ready when it takes connections.
func listens(addr string) func(string) bool {
	return func(string) bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	}
}

// serveRclone runs `rclone serve http` over a bucket.
func serveRclone(t testing.TB, o store.S3Options) *servetest.Process {
	t.Helper()
	t.Setenv("AWS_CA_BUNDLE", "") // with which rclone 1.60 does not start
	addr := testkit.Addresses(t, 1)[0]
	p := startServer(t, listens(addr), testkit.Tool(t, "rclone"), "--config", "/dev/null", "--s3-provider", "Other", "--s3-endpoint", o.Endpoint,
		"--s3-access-key-id", o.AccessKey, "--s3-secret-access-key", o.SecretKey, "serve", "http", "--addr", addr, ":s3:"+o.Bucket)
	return &servetest.Process{Addr: addr, PIDs: []int{p.Cmd.Process.Pid}, Kill: p.Kill}
}

// serveNginx runs nginx over a directory, with a worker for each processor and Debian's settings
// for files: sendfile and tcp_nopush. With settings for TLS it speaks that. It passes requests for
// the paths in proxied on to their URLs.
func serveNginx(t testing.TB, root, ssl string, proxied map[string]*url.URL) *servetest.Process {
	t.Helper()
	program := testkit.Tool(t, "nginx")
	addr := testkit.Addresses(t, 1)[0]
	dir := t.TempDir()
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;\n" // the test's directories are nobody else's
	}
	config := user + "daemon off;\nworker_processes auto;\npid " + dir + "/pid;\nerror_log stderr;\nevents { worker_connections 1024; }\n" +
		"http {\n access_log off;\n sendfile on;\n tcp_nopush on;\n keepalive_requests 1000000;\n"
	for _, temp := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		config += fmt.Sprintf(" %s_temp_path %s/%s;\n", temp, dir, temp)
	}
	listen := addr
	if ssl != "" {
		listen += " ssl"
	}
	config += ssl + " server { listen " + listen + "; root " + root + ";\n"
	for path, to := range proxied {
		config += fmt.Sprintf("  location = %s { proxy_pass %s; proxy_set_header Host %s; proxy_http_version 1.1; proxy_set_header Connection \"\"; }\n", path, to, to.Host)
	}
	config += " }\n}\n"
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	master := startServer(t, listens(addr), program, "-c", file, "-p", dir, "-e", "stderr")
	pid := master.Cmd.Process.Pid
	var workers []string
	testkit.Until(t, "nginx has workers", func() bool { // it listens before
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		testkit.Must(t, err)
		workers = strings.Fields(string(text))
		return len(workers) == runtime.NumCPU()
	})
	p := &servetest.Process{Addr: addr, Secure: ssl != ""}
	for _, worker := range workers {
		n, err := strconv.Atoi(worker)
		if err != nil {
			t.Fatal(err)
		}
		p.PIDs = append(p.PIDs, n)
	}
	return p
}

// fetchAll fetches a file several times on each of some connections.
func fetchAll(t testing.TB, p *servetest.Process, file, header string, connections, times int, size int64) servetest.Measured {
	t.Helper()
	before, start := p.CPU(t), time.Now()
	var wg sync.WaitGroup
	each := make([][]time.Duration, connections)
	for i := range connections {
		wg.Go(func() {
			var err error
			if each[i], err = fetch(p, file, header, times, size); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	return servetest.Measured{N: int64(connections) * int64(times) * size, Took: took, CPU: p.CPU(t) - before, Each: slices.Concat(each...)}
}

// fetch is a cheap client: it keeps its connection and does not look at the bytes. It returns how
// long each request took.
func fetch(p *servetest.Process, file, header string, times int, size int64) (each []time.Duration, err error) {
	c, err := net.Dial("tcp", p.Addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if p.Secure {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	}
	from, sink := bufio.NewReader(c), make([]byte, 256<<10)
	for range times {
		begun := time.Now()
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", file, p.Addr, header); err != nil {
			return nil, err
		}
		resp, err := http.ReadResponse(from, nil)
		if err != nil {
			return nil, err
		}
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, sink)
		if err != nil || resp.StatusCode != http.StatusOK || n != size {
			return nil, fmt.Errorf("%s: %s, %d of %d bytes: %w", file, resp.Status, n, size, err)
		}
		each = append(each, time.Since(begun))
	}
	return each, nil
}

// mirrorFile fetches a file to its place below root, and returns its size.
func mirrorFile(t testing.TB, p *servetest.Process, file, root string) int64 {
	t.Helper()
	resp, err := http.Get("http://" + p.Addr + file)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", file, resp.Status)
	}
	to := filepath.Join(root, file)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, err := io.Copy(f, resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// sizeOf returns how many bytes a server sends of a file.
func sizeOf(t testing.TB, p *servetest.Process, file, header string) int64 {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr)
	testkit.Must(t, err)
	defer c.Close()
	fmt.Fprintf(c, "HEAD %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", file, p.Addr, header)
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodHead})
	testkit.Must(t, err)
	return resp.ContentLength
}
