package ftp

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// slowData opens a passive data connection with a small receive buffer.
func (c *raw) slowData() net.Conn {
	c.t.Helper()
	var port int
	text := c.cmd("229", "EPSV")
	_, err := fmt.Sscanf(text[strings.Index(text, "("):], "(|||%d|)", &port)
	testkit.Must(c.t, err)
	return testkit.DialSmall(c.t, fmt.Sprintf("127.0.0.1:%d", port))
}

// noted waits for the note of a transfer.
func (m *memory) noted(t *testing.T) (last Transfer) {
	t.Helper()
	testkit.Until(t, "the transfer is noted", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.notes) == 1 {
			last = m.notes[0]
		}
		return len(m.notes) == 1
	})
	return last
}

const measuredSize = 6 << 20

// measured is a handler with a file that the engine reads, and one that the kernel sends.
func measured(t *testing.T) *memory {
	text := strings.Repeat("x", measuredSize)
	m := newMemory(map[string]string{"/read": text})
	name := t.TempDir() + "/sent"
	testkit.Must(t, os.WriteFile(name, []byte(text), 0o600))
	f, err := os.Open(name)
	testkit.Must(t, err)
	t.Cleanup(func() { f.Close() })
	m.local["/sent"] = f
	return m
}

// A download has taken the time until its client has the last byte, and not only until that was
// given to the system, and the session is not held up meanwhile.
func TestDownloadTakesUntilItIsAcknowledged(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"read", "sent"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			m := measured(t)
			c := login(t, start(t, m, nil).addr)
			d := c.slowData()
			asked := time.Now()
			c.cmd("150", "RETR %s", file)
			begun := time.Now()                  // the transfer has begun before
			const last = 4 * testkit.SmallBuffer // more than can be acknowledged before it is read
			testkit.ReadSlowly(t, d, measuredSize-last, 200*time.Millisecond)
			least := time.Since(begun)
			testkit.ReadSlowly(t, d, last, 0)
			c.expect("226")
			c.cmd("257", "PWD")
			n := m.noted(t)
			most := time.Since(asked)
			if n.Bytes != measuredSize || n.Err != nil || !n.Acknowledged || n.Took < least || n.Took > most {
				t.Errorf("noted %d bytes in %v, %v, acknowledged: %v; want %d bytes in %v to %v", n.Bytes, n.Took, n.Err, n.Acknowledged, measuredSize, least, most)
			}
		})
	}
}

// Of a download that is broken off counts what the client has acknowledged.
func TestBrokenDownloadHasWhatIsAcknowledged(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"read", "sent"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			m := measured(t)
			c := login(t, start(t, m, nil).addr)
			d := c.slowData()
			c.cmd("150", "RETR %s", file)
			const part = 800 << 10
			testkit.ReadSlowly(t, d, part, 0)
			d.Close()
			n := m.noted(t)
			if n.Bytes < part-testkit.SmallBuffer || n.Bytes > part+testkit.SmallBuffer || n.Err == nil {
				t.Errorf("noted %d bytes, %v; the client read %d", n.Bytes, n.Err, part)
			}
		})
	}
}
