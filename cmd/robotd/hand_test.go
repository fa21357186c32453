package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/robotd"
	"sheaf/robotd/fetch"
)

// TestHand invites a hand, which connects to the head with its pass, and ends its right.
func TestHand(t *testing.T) {
	data, pass := t.TempDir(), filepath.Join(t.TempDir(), "h.pass")
	testkit.Must(t, os.WriteFile(filepath.Join(data, "robot.json"), []byte("{}"), 0o600)) // as of a robot that has joined
	run := func(ctx context.Context, args ...string) error {
		cmd := command()
		cmd.SetArgs(args)
		cmd.SetOut(t.Output())
		cmd.SetErr(t.Output())
		return cmd.ExecuteContext(ctx)
	}
	testkit.Must(t, run(t.Context(), "hand", "invite", "h", "--out", pass, "--data", data))
	if info, err := os.Stat(pass); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v has the pass, %v", info, err)
	}
	head, err := fetch.NewHead(fetch.HeadOptions{
		Dir: filepath.Join(data, "hands"), Version: robotd.Version, Log: slog.New(slog.DiscardHandler),
		Terms: fetch.Terms{Contact: "https://sheaf.test/robot", MaxBytes: 1 << 20, Timeout: time.Minute, Level: 1},
	})
	testkit.Must(t, err)
	address, err := head.Listen("127.0.0.1:0")
	testkit.Must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, "hand", "--head", address.String(), "--pass", pass) }()
	testkit.Until(t, "the hand", func() bool {
		hands, _ := head.Hands()
		return len(hands) == 1 && hands[0].Name == "h" && hands[0].Most == 1000
	})
	stop()
	testkit.Must(t, testkit.Receive(t, "the hand's end", ended))
	testkit.Must(t, head.Close())
	testkit.Must(t, run(t.Context(), "hand", "remove", "h", "--data", data))
	if err := run(t.Context(), "hand", "remove", "h", "--data", data); err == nil {
		t.Error("a hand that has no right was removed")
	}
}
