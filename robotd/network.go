package robotd

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"sheaf/archive"
	"sheaf/internal/botauth"
	"sheaf/internal/settings"
	"sheaf/internal/wire"
	"sheaf/robotd/client"
	"sheaf/robotd/config"
	"sheaf/robotd/control"
	"sheaf/robotd/fetch"
)

// newFetcher returns the fetcher of pages. dial connects to web servers; nil: by TCP. sign signs
// requests; nil: they are not signed.
func newFetcher(cfg *config.Config, temp string, dial func(ctx context.Context, network, addr string) (net.Conn, error), sign func(h http.Header, scheme, host string)) (*fetch.Fetcher, error) {
	opt := lookUpOptions(cfg)
	if cfg.Network.Proxy != "" {
		var err error
		if opt.Proxy, err = url.Parse(cfg.Network.Proxy); err != nil {
			return nil, err
		}
	}
	if limit := cfg.Limits.Bandwidth; limit > 0 { // a second's worth may come at once
		opt.Limit = rate.NewLimiter(rate.Limit(limit), int(min(limit, 1<<20)))
	}
	opt.UserAgent, opt.Timeout, opt.MaxBody = userAgent(cfg), cfg.Page.Timeout, cfg.Page.MaxBytes
	opt.Connect = min(30*time.Second, cfg.Page.Stall/2) // a dead address is known before the watchdog ends the fetch
	opt.AnyCertificate, opt.TempDir, opt.Dial, opt.Sign = cfg.TLS.Verify == config.TLSRecord, temp, dial, sign
	return fetch.New(opt), nil
}

// lookUpOptions returns the options of a fetcher that only looks up hosts.
func lookUpOptions(cfg *config.Config) fetch.Options {
	opt := fetch.Options{Overrides: cfg.Network.Hosts, AllowPrivate: cfg.Network.AllowPrivate}
	if addr := cfg.Network.Resolver; addr != "" {
		opt.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		}}
	}
	return opt
}

// openFiles returns how many files the process may have open. Half of them may be segments; the
// others are for connections.
func openFiles() int {
	const most, least = 100_000, 256
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return least
	}
	return int(max(min(limit.Cur, most), least))
}

// openTap opens the socket for consumers on this machine, or returns nil if the settings want none.
// It also returns nil if the default socket fails, since some network disks have no sockets.
func openTap(cfg *config.Config, log *slog.Logger) (*control.Tap, error) {
	path := cfg.TapSocket()
	if path == "" {
		return nil, nil
	}
	t, err := listenTap(path, cfg, log)
	if err != nil && cfg.Tap.Socket == "" {
		log.Warn("nobody can read records as they are stored", "err", err)
		return nil, nil
	}
	if err != nil {
		return nil, settings.Wrong("tap.socket", path, err.Error())
	}
	return t, nil
}

// tapBuffer is how many bytes are queued for each consumer of the tap.
const tapBuffer = 16 << 20

func listenTap(path string, cfg *config.Config, log *slog.Logger) (*control.Tap, error) {
	// Every stream begins like the warc.gz of no records.
	empty, err := archive.NewView(archive.WARC, nil)
	if err != nil {
		return nil, err
	}
	in, err := empty.OpenRange(context.Background(), 0, empty.Size())
	if err != nil {
		return nil, err
	}
	defer in.Close()
	start, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	return control.ListenTap(control.TapOptions{Path: path, Buffer: tapBuffer, Wait: cfg.Tap.Wait, Start: start, Log: log})
}

func handsDir(cfg *config.Config) string { return filepath.Join(cfg.DataDir, "hands") }

// openHands returns the source of pages: the fetcher, or the hands that the settings allow.
func (r *Robot) openHands() (fetch.Source, error) {
	if r.cfg.Hands.Listen == "" {
		return r.fetcher, nil
	}
	head, err := fetch.NewHead(fetch.HeadOptions{
		Dir: handsDir(&r.cfg), Local: r.cfg.Hands.Self, Fetcher: r.fetcher, Version: Version, Log: r.log,
		Terms: fetch.Terms{
			Contact: r.cfg.Contact, MaxBytes: r.cfg.Page.MaxBytes, Timeout: r.cfg.Page.Timeout, Verify: r.cfg.TLS.Verify, Level: r.cfg.Batch.Level,
			Lease: r.cfg.Hands.Lease,
		},
	})
	if err != nil {
		return nil, err
	}
	r.hands = head
	r.closers = append(r.closers, head)
	return head, nil
}

// InviteHand returns the pass of a new hand of the robot in cfg's folder; see fetch.InviteHand.
func InviteHand(cfg config.Config, name string) ([]byte, error) {
	if _, err := os.Stat(filepath.Join(cfg.DataDir, client.File)); err != nil {
		return nil, fmt.Errorf("%s is no robot's folder: %w", cfg.DataDir, err)
	}
	return fetch.InviteHand(handsDir(&cfg), name)
}

// RemoveHand ends a hand's right to do turns for the robot in cfg's folder.
func RemoveHand(cfg config.Config, name string) error { return fetch.RemoveHand(handsDir(&cfg), name) }

// Hand does turns for the robot that waits for hands at head, until ctx ends. The robot says what
// pages are taken and how; cfg says how this machine reaches them: network, limits.bandwidth.
func Hand(ctx context.Context, cfg config.Config, head string, pass []byte, turns int, log *slog.Logger) (err error) {
	temp, err := os.MkdirTemp("", "robotd-hand-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	return fetch.RunHand(ctx, fetch.HandOptions{
		Head: head, Pass: pass, Version: Version, Turns: turns, Log: log,
		Fetcher: func(t *fetch.Terms) (*fetch.Fetcher, error) {
			cfg := cfg
			cfg.Contact, cfg.Page.MaxBytes, cfg.Page.Timeout, cfg.TLS.Verify = t.Contact, t.MaxBytes, t.Timeout, t.Verify
			return newFetcher(&cfg, temp, nil, nil) // the head signs
		},
	})
}

// openSigner returns what signs requests, by the manager's clock: verifiers refuse signatures from
// the future and from long ago. It returns nil if requests are not signed.
func (r *Robot) openSigner() (sign func(h http.Header, scheme, host string), err error) {
	if r.cfg.Identity.Sign == "" {
		return nil, nil
	}
	if r.signer, err = botauth.New(r.cfg.Identity.Sign, r.id.Key); err != nil {
		return nil, fmt.Errorf("setting identity.sign: %w", err)
	}
	return func(h http.Header, scheme, host string) { r.signer.Sign(h, scheme, host, r.managersTime()) }, nil
}

// tellClock logs once if the machine's clock is wrong, since signatures bear times.
func (r *Robot) tellClock() {
	if off := r.client.Clock().Wrong(); off != 0 {
		r.wrong.Do(func() {
			r.log.Warn("this machine's clock differs from the manager's, by which requests are signed: set it; while the manager cannot be asked after a start, sites refuse the signatures", "ahead", off)
		})
	}
}

// managersTime returns the time by the manager's clock, as far as it is known.
func (r *Robot) managersTime() time.Time { return time.Now().Add(-r.client.Offset()) }

// signing returns the keys that the manager is to list; nil: requests are not signed.
func (r *Robot) signing() []wire.SigningKey {
	if r.signer == nil {
		return nil
	}
	r.tellClock()
	return r.signer.Proofs(r.managersTime())
}

// signing checks what sites need to verify the robot's signatures: a directory at the service's
// public address that has the robot's key, and a time that is about theirs.
func (c *checkup) signing(ctx context.Context, agent string, secret ed25519.PrivateKey, manager *client.Client) {
	const what = "signatures"
	signer, err := botauth.New(agent, secret)
	if err != nil {
		c.report(what, settings.Wrong("identity.sign", agent, err.Error()), "")
		return
	}
	if off := manager.Offset(); off.Abs() > botauth.Life {
		c.report(what, fmt.Errorf("this machine's clock is off by %v, and a signature is good for %v: set the clock (NTP). The robot signs by the manager's clock, but by this one where the manager does not answer after a start",
			off.Round(time.Second), botauth.Life), "")
	}
	asking, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err = signer.Listed(asking, http.DefaultClient, time.Now().Add(-manager.Offset()))
	switch {
	case errors.Is(err, botauth.ErrNotListed):
		err = fmt.Errorf("%w: it comes there with a heartbeat of the running robot (setting heartbeat), and caches may keep the list for half an hour; if it stays away, identity.sign is not the address that the service has as http.public", err)
	case err != nil:
		err = fmt.Errorf("%w: sites cannot verify the robot's signatures; set identity.sign to the service's public address, or leave it empty, and tell the operators if the address is right", err)
	}
	c.report(what, err, "the directory at %s has this robot's key", agent)
}
