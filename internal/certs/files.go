package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/internal/loop"
)

// Files is a Source that reads the certificate from two PEM files, again when their contents
// change. While the files cannot be used, the last good certificate stays, and State and the log
// say why.
type Files struct {
	section   string // of the settings, such as http
	cert, key string // names of the files
	every     time.Duration
	log       *slog.Logger
	current   atomic.Pointer[tls.Certificate]

	mu   sync.Mutex // guards the fields below
	seen string     // contents of the files at the last look
	err  error      // why these contents cannot be used
}

// Open reads the certificate of a section of the settings, such as http for http.cert and http.key.
// Its error names the setting. It accepts an expired certificate, since without one no client could
// connect. every is the interval at which Run will look at the files.
func Open(section, cert, key string, every time.Duration, log *slog.Logger) (*Files, error) {
	f := &Files{section: section, cert: cert, key: key, every: every, log: log}
	f.look(time.Now())
	if f.current.Load() == nil {
		return nil, fmt.Errorf("settings: %w", f.err)
	}
	return f, nil
}

// Run implements Source. It compares the files' contents rather than their times: they may be links
// that now point to other files, or be written twice within a clock tick.
func (f *Files) Run(ctx context.Context) error {
	return loop.After(ctx, f.every, func(context.Context) error { f.look(time.Now()); return nil }, nil)
}

// look reads the files and, if their contents are new, uses their certificate. A certificate that
// clients refuse now never replaces one that they accept.
func (f *Files) look(now time.Time) {
	cert, err := os.ReadFile(f.cert)
	if err != nil {
		err = f.wrong("cert", f.cert, err)
	}
	key, kerr := os.ReadFile(f.key)
	if kerr != nil {
		err = errors.Join(err, f.wrong("key", f.key, kerr))
	}
	found := fmt.Sprint(string(cert), "\x00", string(key), "\x00", err)
	f.mu.Lock()
	defer f.mu.Unlock()
	if found == f.seen {
		return
	}
	f.seen = found
	var pair tls.Certificate
	if err == nil {
		pair, err = f.pair(cert, key)
	}
	last := f.current.Load()
	if err == nil && last != nil && valid(last.Leaf, now) == nil {
		if why := valid(pair.Leaf, now); why != nil {
			err = f.wrong("cert", f.cert, why)
		}
	}
	f.err = err
	switch {
	case err != nil && last != nil:
		f.log.Error("tls: the certificate's files cannot be used; the last good certificate is kept", "setting", f.setting(), "until", last.Leaf.NotAfter, "err", err)
	case err == nil:
		f.current.Store(&pair)
		f.log.Info("tls: read a certificate", "setting", f.setting(), "hosts", pair.Leaf.DNSNames, "until", pair.Leaf.NotAfter)
		if why := valid(pair.Leaf, now); why != nil {
			f.log.Error("tls: clients refuse the certificate", "setting", f.setting(), "err", why)
		}
	}
}

// pair returns the certificate in the files' contents. Its errors name the setting and the file.
func (f *Files) pair(cert, key []byte) (pair tls.Certificate, err error) {
	if err := checkChain(cert); err != nil {
		return pair, f.wrong("cert", f.cert, err)
	}
	if pair, err = tls.X509KeyPair(cert, key); err != nil {
		return pair, f.wrong("key", f.key, fmt.Errorf("is no key of %s: %w", f.setting(), err))
	}
	return pair, nil
}

func (f *Files) setting() string { return f.section + ".cert" }

// wrong adds the name of the setting, and the file, to err.
func (f *Files) wrong(which, file string, err error) error {
	return fmt.Errorf("%s.%s: %q: %w", f.section, which, file, err)
}

// GetCertificate implements Source.
func (f *Files) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return f.current.Load(), nil
}

// State implements Source.
func (f *Files) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := State{Setting: f.setting(), NotAfter: f.current.Load().Leaf.NotAfter, Err: f.err}
	if s.Err == nil {
		s.Err = lasts(f.current.Load().Leaf, time.Now(), Soon)
	}
	return s
}
