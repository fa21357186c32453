package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// longest is the longest path of a socket: sun_path has 108 bytes on Linux, including a zero byte
// at the end.
const longest = 107

// ListenSocket opens a socket that only its owner may use. It replaces a socket that a dead process
// left: the caller makes sure, by a lock, that nobody uses it. Closing the listener removes the
// socket.
func ListenSocket(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := short(path, func(short string) (net.Listener, error) {
		l, err := net.Listen("unix", short)
		if err != nil {
			return nil, err
		}
		l.(*net.UnixListener).SetUnlinkOnClose(false) // the short name is only valid during this call
		return &listener{l, path}, os.Chmod(path, 0o600)
	})
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	return l, nil
}

type listener struct {
	net.Listener
	path string
}

// Close closes the listener and removes the socket.
func (l *listener) Close() error {
	err := l.Listener.Close()
	if errors.Is(err, net.ErrClosed) {
		return err // the path may belong to another process by now
	}
	return errors.Join(err, os.Remove(l.path))
}

// DialSocket connects to a socket. Its path may be longer than the kernel allows.
func DialSocket(ctx context.Context, path string) (net.Conn, error) {
	return short(path, func(short string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", short)
	})
}

// short calls fn with a shorter name for a path that is too long. The name goes through an open
// descriptor of the folder, and is valid during the call.
func short[T any](path string, fn func(string) (T, error)) (none T, err error) {
	if len(path) <= longest {
		return fn(path)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return none, err
	}
	defer dir.Close()
	return fn(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}
