package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sheaf/internal/files"
)

// Replace writes a file whole and durably, or leaves it as it was.
func Replace(path string, data []byte, mode os.FileMode) error {
	return files.Disk{System: files.Host{}}.WriteFile(path, data, mode)
}

// SaveJSON replaces a file by v as JSON.
func SaveJSON(path string, v any) error {
	data, err := encode(v)
	if err != nil {
		return err
	}
	return Replace(path, data, 0o644)
}

// NoteJSON is SaveJSON for data that is soon written again: the file survives the process, but
// perhaps not a loss of power.
func NoteJSON(path string, v any) error {
	data, err := encode(v)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", data, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func encode(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	return append(data, '\n'), err
}

// LoadJSON reads v from a file. If there is no file, v stays as it is.
func LoadJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w; remove the file", path, err)
	}
	return nil
}

// Lock locks the folder for one daemon. The kernel drops the lock with the process, however that
// ends. If another process has the lock, the error wraps unix.EWOULDBLOCK.
func Lock(dir string) (io.Closer, error) {
	f, err := os.OpenFile(filepath.Join(dir, "robot.lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := files.TryLock(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("another robotd works in %s: %w", dir, err)
	}
	return files.Held{File: f}, nil
}

// Summed returns the text with its CRC-32 in hex and a blank before it.
func Summed(text string) string {
	return fmt.Sprintf("%08x %s", crc32.ChecksumIEEE([]byte(text)), text)
}

// Unsummed returns the text after the checksum, and whether the checksum is right.
func Unsummed(line string) (text string, ok bool) {
	sum, text, _ := strings.Cut(line, " ")
	want, err := strconv.ParseUint(sum, 16, 32)
	return text, err == nil && len(sum) == 8 && uint32(want) == crc32.ChecksumIEEE([]byte(text))
}

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
