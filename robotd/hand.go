package robotd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"sheaf/robotd/client"
	"sheaf/robotd/config"
	"sheaf/robotd/fetch"
)

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
