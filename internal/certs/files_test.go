package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
)

// pair is a certificate with its key, in PEM.
type pair struct{ cert, key []byte }

func made(t *testing.T, name string, from, to time.Duration) (p pair) {
	t.Helper()
	p.cert, p.key = testkit.Certificate(t, name, time.Now().Add(from), time.Now().Add(to))
	return p
}

// written writes a certificate and its key to files.
func written(t *testing.T, dir string, p pair) (cert, key string) {
	t.Helper()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	testkit.Must(t, os.WriteFile(cert, p.cert, 0o600))
	testkit.Must(t, os.WriteFile(key, p.key, 0o600))
	return cert, key
}

// served returns the name in the certificate that a client gets.
func served(t *testing.T, s Source) string {
	t.Helper()
	client, server := net.Pipe()
	defer client.Close()
	go func() {
		tls.Server(server, Config(s)).Handshake()
		server.Close()
	}()
	c := tls.Client(client, &tls.Config{InsecureSkipVerify: true, ServerName: "any.example.jp"})
	testkit.Must(t, c.Handshake())
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// A new certificate is served without a restart. What cannot be used changes nothing but the state,
// until the files are good again.
func TestFilesAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const every = 10 * time.Second
		one, two := made(t, "one", -time.Hour, Soon+24*time.Hour), made(t, "two", -time.Hour, 2*Soon+48*time.Hour)
		late, early := made(t, "late", -2*time.Hour, -time.Hour), made(t, "early", time.Hour, 2*time.Hour)
		var log bytes.Buffer
		dir := t.TempDir()
		cert, key := written(t, dir, one)
		f, err := Open("http", cert, key, every, slog.New(slog.NewTextHandler(&log, nil)))
		testkit.Must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go f.Run(ctx)

		for _, step := range []struct {
			what   string
			change func()
			name   string
			err    string // in the state's error; "": there is none
		}{
			{"at first", func() {}, "one", ""},
			{"a certificate without its key", func() { os.WriteFile(cert, two.cert, 0o600) }, "one", "http.key"},
			{"its key", func() { os.WriteFile(key, two.key, 0o600) }, "two", ""},
			{"a half-written certificate", func() { os.WriteFile(cert, one.cert[:len(one.cert)/2], 0o600) }, "two", "still being written"},
			{"a chain whose end is missing", func() { os.WriteFile(cert, append(bytes.Clone(two.cert), one.cert[:99]...), 0o600) }, "two", "1 of 2"},
			{"an empty file", func() { os.WriteFile(cert, nil, 0o600) }, "two", "no PEM block"},
			{"something else", func() { os.WriteFile(cert, two.key, 0o600) }, "two", "http.key"},
			{"no file", func() { os.Remove(cert) }, "two", "no such file"},
			{"one that has expired", func() { written(t, dir, late) }, "two", "expired"},
			{"one for later", func() { written(t, dir, early) }, "two", "not valid before"},
			{"the same as before", func() { written(t, dir, two) }, "two", ""},
			{"another", func() { written(t, dir, one) }, "one", ""},
			{"its last weeks", func() { time.Sleep(24 * time.Hour) }, "one", "expires at"},
			{"the end of its time", func() { time.Sleep(Soon) }, "one", "expired"},
			{"a new one", func() { written(t, dir, two) }, "two", ""},
		} {
			f.mu.Lock() // a look logs while it holds it
			log.Reset()
			f.mu.Unlock()
			step.change()
			time.Sleep(every)
			synctest.Wait()
			state := f.State()
			if got := served(t, f); got != step.name {
				t.Errorf("%s: %s is served, want %s", step.what, got, step.name)
			}
			if state.Setting != "http.cert" || (state.Err == nil) != (step.err == "") || state.Err != nil && !strings.Contains(state.Err.Error(), step.err) {
				t.Errorf("%s: state %+v, want %q", step.what, state, step.err)
			}
			if step.err != "" && step.what != "its last weeks" && step.what != "the end of its time" && strings.Count(log.String(), "level=ERROR") != 1 {
				t.Errorf("%s: the log has %q", step.what, log.String())
			}
		}
	})
}

// A service that would begin without a certificate does not start. One that has expired is better
// than none.
func TestOpen(t *testing.T) {
	good, other := made(t, "good", -time.Hour, time.Hour), made(t, "other", -time.Hour, time.Hour)
	open := func(p pair) (*Files, error) {
		cert, key := written(t, t.TempDir(), p)
		return Open("tls", cert, key, time.Second, slog.New(slog.NewTextHandler(io.Discard, nil)))
	}
	for want, p := range map[string]pair{
		"tls.key":   {good.cert, other.key},
		"whole":     {good.cert[:100], good.key},
		"tls.cert":  {nil, good.key},
		"block 2":   {append(bytes.Clone(good.cert), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"...), good.key},
		"is no key": {good.cert, nil},
	} {
		if _, err := open(p); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "settings: ") {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	f, err := open(made(t, "late", -2*time.Hour, -time.Hour))
	testkit.Must(t, err)
	if state := f.State(); served(t, f) != "late" || state.Err == nil {
		t.Errorf("an expired certificate has the state %+v", state)
	}
	if _, err := Open("tls", "/no/such/cert", "/no/such/key", time.Second, nil); err == nil || !strings.Contains(err.Error(), "tls.cert") || !strings.Contains(err.Error(), "tls.key") {
		t.Errorf("missing files: %v", err)
	}
}
