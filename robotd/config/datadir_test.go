package config_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/robotd/config"
)

// A socket works where its path is too long for the system, is the owner's alone, takes the
// place of a dead one, and goes when it is closed.
func TestSocket(t *testing.T) {
	for _, length := range []int{1, 150} {
		dir := filepath.Join(t.TempDir(), strings.Repeat("x", length))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "s")
		if err := os.WriteFile(path, nil, 0o644); err != nil { // a dead one's
			t.Fatal(err)
		}
		l, err := config.ListenSocket(path)
		if err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 || st.Mode().Type() != os.ModeSocket {
			t.Errorf("socket: %v, %v", st.Mode(), err)
		}
		go func() {
			conn, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(conn, "here")
			conn.Close()
		}()
		conn, err := config.DialSocket(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(conn); err != nil || string(text) != "here" {
			t.Errorf("%q, %v", text, err)
		}
		conn.Close()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("the socket stays: %v", err)
		}
	}
}
