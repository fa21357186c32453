package ftp

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
)

// Connections that are opened and left alone keep nobody out: who has not logged in makes room,
// the longest open first, and who has logged in stays.
func TestStrangersMakeRoom(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(*Config){
		"in all": func(c *Config) { c.MaxConns = 4 }, "of one address": func(c *Config) { c.MaxPerAddr = 4 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, newMemory(nil), limit)
			alice := login(t, r.addr)
			var strangers []*raw
			for range 3 {
				s := dial(t, r.addr)
				s.expect("220")
				strangers = append(strangers, s)
			}
			for range 2 {
				login(t, r.addr)
			}
			for _, s := range strangers[:2] {
				s.expect("421 Others came meanwhile")
			}
			strangers[2].cmd("331", "USER alice")
			strangers[2].cmd("230", "PASS secret")
			alice.cmd("257", "PWD")
			dial(t, r.addr).expect("421 Too many connections")
		})
	}
}

// Who does not log in within half a minute is sent away.
func TestStrangersLeaveAfterHalfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, err := Config{}.withDefaults()
		testkit.Must(t, err)
		client, server := net.Pipe()
		defer client.Close()
		c := newClient(t.Context(), newServer(cfg, newMemory(nil)), server)
		begun := time.Now()
		said := make(chan string, 1)
		go func() {
			var b [200]byte
			n, _ := client.Read(b[:])
			said <- string(b[:n])
		}()
		if _, err := c.Read(make([]byte, 100)); err == nil {
			t.Error("a command came from nowhere")
		}
		if text := <-said; !strings.HasPrefix(text, "421 No login") || time.Since(begun) != 30*time.Second {
			t.Errorf("after %v came %q", time.Since(begun), text)
		}
	})
}

// A client that hangs up while its file is being opened is no error of the service's.
func TestHangUpIsNoError(t *testing.T) {
	t.Parallel()
	var log lines
	m := slowToOpen{newMemory(map[string]string{"/x": "12345"}), make(chan struct{}), make(chan struct{})}
	r := start(t, m, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	c := login(t, r.addr)
	c.data()
	c.Write([]byte("RETR x\r\n"))
	testkit.Receive(t, "the file is asked for", m.asked)
	c.Close()
	testkit.Receive(t, "the file is no longer waited for", m.left)
	r.stop()
	testkit.Must(t, <-r.done)
	if text := log.String(); strings.Contains(text, "ERROR") {
		t.Errorf("the log has %s", text)
	}
}

// slowToOpen gives no file before the client has gone.
type slowToOpen struct {
	*memory
	asked, left chan struct{}
}

func (m slowToOpen) Login(ctx context.Context, user, password string, remote net.Addr) (Session, error) {
	s, err := m.memory.Login(ctx, user, password, remote)
	return slowSession{s, m}, err
}

type slowSession struct {
	Session
	of slowToOpen
}

func (s slowSession) Open(ctx context.Context, _ string, _ int64) (File, error) {
	close(s.of.asked)
	<-ctx.Done()
	close(s.of.left)
	return nil, errors.Join(errors.New("opening"), ctx.Err())
}

// lines is a log that may be written and read at once.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
