package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"sheaf/robotd/control"
)

// TestTapIntoHead ends a tap whose output nobody reads any more, as head does after its
// lines, without a word.
func TestTapIntoHead(t *testing.T) {
	dir, err := os.MkdirTemp("", "tap") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	robot, err := control.ListenTap(control.TapOptions{
		Path: filepath.Join(dir, "tap.sock"), Buffer: 1 << 20, Log: slog.New(slog.DiscardHandler),
		Start: []byte("a record"),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer robot.Close()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out.Close()

	var told bytes.Buffer
	cmd := command()
	cmd.SetArgs([]string{"tap", "--data", dir})
	cmd.SetOut(in)
	cmd.SetErr(&told)
	if err := cmd.ExecuteContext(t.Context()); err != nil || told.Len() > 0 {
		t.Errorf("%v; told %q", err, &told)
	}
}
