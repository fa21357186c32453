package ftpd_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/internal/db"
	"sheaf/internal/ftp"
	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
	"sheaf/serve/account"
	"sheaf/serve/ftpd"
	"sheaf/serve/reading"
	"sheaf/serve/servetest"
)

// BenchmarkAgainstVsftpd fetches the same file from this service and from vsftpd,
// in turn, over 1, 8 and 64 connections, and mirrors 2,000 small archives with lftp
// from both. Each server is a process of its own. It gives MB/s, the server's CPU
// seconds per GiB (user and system, of /proc) and, of the speeds, the ratio to vsftpd;
// for an archive that is one stretch of a stored file (members) and for one that is
// put together of stretches as it is sent (tar.gz). The stored one is also fetched
// with AUTH TLS, for both connections:
//
//	go test -run '^$' -bench AgainstVsftpd -benchtime 1x -timeout 30m ./serve/ftpd
//
// It runs as root, because vsftpd does; SHEAF_BENCH_MIB (64) is the file's size and
// SHEAF_BENCH_ROUNDS (5) how often the pairs are repeated.
func BenchmarkAgainstVsftpd(b *testing.B) {
	vsftpd := testkit.Tool(b, "vsftpd")
	lftp := testkit.Tool(b, "lftp")
	if os.Geteuid() != 0 {
		b.Skip("vsftpd must be started by root")
	}
	rounds := servetest.Number("SHEAF_BENCH_ROUNDS", 5)
	s := servetest.New(b, nil)
	records := make([]*archive.Record, servetest.Number("SHEAF_BENCH_MIB", 64))
	for i := range records {
		records[i] = servetest.Page(fmt.Sprintf("http://%s/%d", host, i), noise(2<<20), day) // hex digits: half of it is left
	}
	s.Publish("20261121", map[string][]*archive.Record{host: records})
	const small = 2000
	many := make(map[string][]*archive.Record)
	for i := range small {
		name := fmt.Sprintf("h%04d.example.jp", i)
		many[name] = []*archive.Record{servetest.Page("http://"+name+"/", noise(10_000), day)}
	}
	s.Publish("20261122", many)

	// vsftpd serves what a mirror of the service is.
	root := b.TempDir()
	ours := serveInProcess(b, s.Dir, "")
	cert, key := testkit.CertificateFiles(b, b.TempDir(), "localhost")
	run := func(addr, user, from, to string) time.Duration {
		start := time.Now()
		cmd := exec.CommandContext(b.Context(), lftp, "-u", user, "-e",
			"set net:max-retries 2; set ftp:ssl-allow no; mirror -P 4 --no-perms --include-glob *.tar.gz --exclude-glob current.* --exclude-glob all.* "+from+" "+to+"; quit", "ftp://"+addr)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("lftp: %v\n%s", err, out)
		}
		return time.Since(start)
	}
	run(ours.Addr, "jp,jp", "/jp", filepath.Join(root, "jp"))
	const stored, computed = dir + "20261121.members.tar.gz", dir + "20261121.tar.gz"
	if out, err := exec.Command(lftp, "-u", "jp,jp", "-e", "set ftp:ssl-allow no; get "+stored+" -o "+root+stored+"; quit", "ftp://"+ours.Addr).CombinedOutput(); err != nil {
		b.Fatalf("lftp: %v\n%s", err, out)
	}
	servers := map[string]*process{"sheaf": ours, "vsftpd": serveVsftpd(b, vsftpd, root)}
	secure := map[string]*process{"sheaf": serveInProcess(b, s.Dir, "", benchTLS+"="+cert+":"+key), "vsftpd": serveVsftpd(b, vsftpd, root,
		"ssl_enable=YES", "allow_anon_ssl=YES", "require_ssl_reuse=NO", "rsa_cert_file="+cert, "rsa_private_key_file="+key, "ssl_ciphers=HIGH")}
	for b.Loop() {
		for what, file := range map[string]string{"stored": stored, "computed": computed, "tls": stored} {
			servers := servers
			if what == "tls" {
				servers = secure
			}
			info, err := os.Stat(filepath.Join(root, file))
			if err != nil {
				b.Fatal(err)
			}
			for _, connections := range []int{1, 8, 64} {
				total := map[string]servetest.Measured{}
				for range rounds {
					for name, p := range servers {
						m := total[name]
						m.Add(p.fetch(b, file, connections, max(1, int(1<<30/info.Size())/connections), info.Size()))
						total[name] = m
					}
				}
				report(b, fmt.Sprintf("%s-%d", what, connections), total)
			}
		}
		total := map[string]servetest.Measured{}
		for range rounds {
			for name, p := range servers {
				to, cpu := b.TempDir(), p.CPU(b)
				user := map[string]string{"sheaf": "jp,jp", "vsftpd": "anonymous,x"}[name]
				took := run(p.Addr, user, "/jp/example", to)
				found, err := filepath.Glob(to + "/*/*.tar.gz")
				if err != nil || len(found) != small {
					b.Fatalf("%s: %d files, %v", name, len(found), err)
				}
				m := total[name]
				m.Add(servetest.Measured{N: small, Took: took, CPU: p.CPU(b) - cpu})
				total[name] = m
			}
		}
		b.Logf("lftp mirror of %d files: %.0f files/s, vsftpd %.0f; ratio %.2f; CPU %v, vsftpd %v a mirror", small,
			total["sheaf"].Rate(), total["vsftpd"].Rate(), total["sheaf"].Rate()/total["vsftpd"].Rate(),
			total["sheaf"].CPU/time.Duration(rounds), total["vsftpd"].CPU/time.Duration(rounds))
		b.ReportMetric(total["sheaf"].Rate()/total["vsftpd"].Rate(), "mirror-ratio")
		b.ReportMetric(total["sheaf"].CPU.Seconds()/total["vsftpd"].CPU.Seconds(), "mirror-cpu-ratio")
	}
}

func report(b *testing.B, what string, of map[string]servetest.Measured) {
	s, v := of["sheaf"], of["vsftpd"]
	b.Logf("RETR %s: %.0f MB/s, vsftpd %.0f; ratio %.2f; CPU %.3f s/GiB, vsftpd %.3f", what, s.Rate()/1e6, v.Rate()/1e6, s.Rate()/v.Rate(), s.PerGiB(), v.PerGiB())
	b.ReportMetric(s.Rate()/v.Rate(), what+"-ratio")
	b.ReportMetric(s.PerGiB()/v.PerGiB(), what+"-cpu-ratio")
}

// process is a server under measurement, and who may fetch from it.
type process struct {
	servetest.Process
	user string
}

// fetch gets a file times over on each of the connections.
func (p *process) fetch(b *testing.B, file string, connections, times int, size int64) servetest.Measured {
	before, start := p.CPU(b), time.Now()
	var wg sync.WaitGroup
	for range connections {
		wg.Go(func() {
			if err := retrieve(p, file, times, size); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	return servetest.Measured{N: int64(connections) * int64(times) * size, Took: took, CPU: p.CPU(b) - before}
}

// retrieve is a client that costs as little as one can.
func retrieve(p *process, file string, times int, size int64) error {
	c, err := net.Dial("tcp", p.Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	host, _, err := net.SplitHostPort(p.Addr)
	if err != nil {
		return err
	}
	control := textproto.NewConn(c)
	secure := &tls.Config{InsecureSkipVerify: true, ServerName: "localhost", ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	say := func(code int, line string) (string, error) {
		if line != "" {
			if err := control.PrintfLine("%s", line); err != nil {
				return "", err
			}
		}
		_, text, err := control.ReadResponse(code)
		return text, err
	}
	type step struct {
		code int
		line string
	}
	steps := []step{{220, ""}, {331, "USER " + p.user}, {230, "PASS " + p.user}, {200, "TYPE I"}}
	if p.Secure {
		steps = slices.Insert(steps, 1, step{234, "AUTH TLS"})
		steps = append(steps, step{200, "PBSZ 0"}, step{200, "PROT P"})
	}
	for _, s := range steps {
		if _, err := say(s.code, s.line); err != nil {
			return err
		}
		if s.code == 234 {
			control = textproto.NewConn(tls.Client(c, secure))
		}
	}
	sink := make([]byte, 256<<10)
	for range times {
		text, err := say(229, "EPSV")
		if err != nil {
			return err
		}
		port := strings.Trim(text[strings.Index(text, "(")+1:], "|)")
		d, err := net.Dial("tcp", net.JoinHostPort(host, port))
		if err != nil {
			return err
		}
		if _, err := say(150, "RETR "+file); err != nil {
			return err
		}
		if p.Secure {
			d = tls.Client(d, secure)
		}
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{d}, sink)
		d.Close()
		if err != nil || n != size {
			return fmt.Errorf("%d of %d bytes: %w", n, size, err)
		}
		if _, err := say(226, ""); err != nil {
			return err
		}
	}
	_, err = say(221, "QUIT")
	return err
}

// serveVsftpd starts vsftpd over a directory, with further settings. With any, it speaks TLS.
func serveVsftpd(b *testing.B, program, root string, settings ...string) *process {
	dir := b.TempDir()
	addr := testkit.Addresses(b, 1)[0]
	host, port, err := net.SplitHostPort(addr)
	testkit.Must(b, err)
	for d := root; len(d) > len(os.TempDir()); d = filepath.Dir(d) {
		os.Chmod(d, 0o755) // vsftpd reads as the user ftp
	}
	config := filepath.Join(dir, "vsftpd.conf")
	text := fmt.Sprintf("listen=YES\nlisten_address=%s\nlisten_port=%s\nbackground=NO\nanonymous_enable=YES\nno_anon_password=NO\nanon_root=%s\n"+
		"secure_chroot_dir=%s\nseccomp_sandbox=NO\nxferlog_enable=NO\nmax_clients=0\nmax_per_ip=0\nrun_as_launching_user=NO\n", host, port, root, root) +
		strings.Join(append(settings, ""), "\n")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	p := testkit.Start(b, "", exec.Command(program, config))
	p.Ready(b, func() error {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err
	})
	return &process{servetest.Process{Addr: addr, Secure: len(settings) > 0, PIDs: []int{p.Cmd.Process.Pid}}, "anonymous"}
}

const (
	benchStore = "SHEAF_BENCH_FTP_STORE"
	benchRate  = "SHEAF_BENCH_FTP_RATE"
	benchTLS   = "SHEAF_BENCH_FTP_TLS" // files of a certificate and its key
)

// serveInProcess starts a process that serves what lies in a store to the account
// jp, at a rate if one is given. With further variables of the environment, for TLS, it speaks
// that.
func serveInProcess(b testing.TB, dir, rate string, env ...string) *process {
	b.Helper()
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestServeForBenchmark$", "-test.timeout=1h")
	cmd.Env = append(append(os.Environ(), benchStore+"="+dir, benchRate+"="+rate), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { stop(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return &process{servetest.Process{Addr: strings.TrimSpace(line), Secure: len(env) > 0, PIDs: []int{cmd.Process.Pid}}, "jp"}
}

// TestServeForBenchmark is the process; it does nothing of itself.
func TestServeForBenchmark(t *testing.T) {
	dir := os.Getenv(benchStore)
	if dir == "" {
		return
	}
	st, err := store.OpenFS(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	cat, err := catalog.Open(t.Context(), st, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	database, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "sheaf.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	accounts, err := account.NewAccounts(database, nil, servetest.Cheap)
	if err != nil {
		t.Fatal(err)
	}
	reader := account.Account{Name: "jp", Domains: []string{"jp"}}
	if text := os.Getenv(benchRate); text != "" {
		reader.Rate = rate(t, text)
	}
	_, _, createErr := accounts.Create(t.Context(), reader, "jp")
	library, err := reading.New(reading.Options{Catalog: cat, Store: st, Accounts: accounts, Lag: time.Second})
	if err := errors.Join(err, createErr); err != nil {
		t.Fatal(err)
	}
	notes := transfers.NewBuffer(transfers.New(database), slog.Default())
	go notes.Run(t.Context())
	handler, err := ftpd.New(ftpd.Options{Tree: library.Tree, Accounts: accounts, Recorder: notes})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config := ftp.Config{Listener: l, MaxPerAddr: 100, MaxPerAccount: 100}
	if cert, key, ok := strings.Cut(os.Getenv(benchTLS), ":"); ok {
		pair, err := tls.LoadX509KeyPair(cert, key)
		testkit.Must(t, err)
		config.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	fmt.Println(l.Addr())
	if err := ftp.Run(t.Context(), config, handler); err != nil {
		t.Error(err)
	}
}
