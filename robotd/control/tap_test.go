package control

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

func zipped(s string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(s))
	z.Close()
	return b.Bytes()
}

func listen(t *testing.T, opt TapOptions) *Tap {
	t.Helper()
	dir, err := os.MkdirTemp("", "tap") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	opt.Path, opt.Log, opt.Start = filepath.Join(dir, "s"), slog.New(slog.DiscardHandler), zipped("start\n")
	tap, err := ListenTap(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tap.Close() })
	return tap
}

// connect makes a consumer that has been admitted.
func connect(t *testing.T, tap *Tap) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", tap.opt.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	testkit.Until(t, "the consumer's admission", tap.Active)
	return conn
}

func TestConsumerReadsAll(t *testing.T) {
	tap := listen(t, TapOptions{Buffer: 1 << 20})
	if tap.Active() {
		t.Error("active without a consumer")
	}
	tap.Offer(zipped("nobody hears this\n"))
	conn := connect(t, tap)
	if mode, err := os.Stat(tap.opt.Path); err != nil || mode.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", mode, err)
	}
	want := "start\n"
	for i := range 100 {
		line := fmt.Sprintf("record %d\n", i)
		tap.Offer(zipped(line))
		want += line
	}
	got := make(chan string)
	go func() {
		z, err := gzip.NewReader(bufio.NewReader(conn))
		if err != nil {
			t.Error(err)
			close(got)
			return
		}
		all, err := io.ReadAll(z)
		if err != nil {
			t.Error(err)
		}
		got <- string(all)
	}()
	if err := tap.Close(); err != nil {
		t.Error(err)
	}
	if all := <-got; all != want {
		t.Errorf("read %q", all)
	}
	if tap.Dropped() != 0 {
		t.Errorf("%d dropped", tap.Dropped())
	}
}

// A consumer that takes nothing costs one wait, not one for each record, and what it
// loses is counted, for it too; another one beside it gets all.
func TestStuckConsumer(t *testing.T) {
	const records, wait = 3000, 300 * time.Millisecond
	record := bytes.Repeat([]byte("x"), 4<<10)
	tap := listen(t, TapOptions{Buffer: 256 << 10, Wait: wait})
	stuck := connect(t, tap)
	for range records { // a wait for each would take longer than go test lets it
		tap.Offer(record)
	}
	dropped := tap.Dropped()
	if dropped == 0 || dropped >= records {
		t.Fatalf("%d of %d records dropped", dropped, records)
	}
	// It wakes up, reads what was queued, and is told of the gap before the next record.
	text := make(chan string)
	go func() {
		all, err := io.ReadAll(stuck)
		if err != nil {
			t.Error(err)
		}
		text <- string(all)
	}()
	testkit.Until(t, "the consumer's awakening", func() bool {
		before := tap.Dropped()
		tap.Offer(record)
		taken := tap.Dropped() == before
		if !taken {
			dropped++
		}
		return taken
	})
	if err := tap.Close(); err != nil {
		t.Error(err)
	}
	all := <-text
	start := zipped("start\n")
	if !strings.HasPrefix(all, string(start)) {
		t.Fatal("the stream does not begin with the start")
	}
	all = all[len(start):]
	at := strings.Index(all, "\x1f\x8b")
	if at < 0 || at%len(record) != 0 {
		t.Fatalf("the gap's record begins at %d", at)
	}
	z, err := gzip.NewReader(strings.NewReader(all[at:]))
	if err != nil {
		t.Fatal(err)
	}
	z.Multistream(false)
	told, err := io.ReadAll(z)
	if err != nil || !strings.Contains(string(told), fmt.Sprintf("\r\n\r\ndropped: %d\r\n", dropped)) {
		t.Errorf("told %q, %v; %d were dropped", told, err, dropped)
	}
}

// A consumer that takes nothing for too long is cut off, and so are those too many.
func TestCutOff(t *testing.T) {
	tap := listen(t, TapOptions{Buffer: 1 << 20, Stuck: 20 * time.Millisecond})
	connect(t, tap)
	testkit.Until(t, "the stuck consumer's end", func() bool {
		tap.Offer(bytes.Repeat([]byte("x"), 64<<10))
		return !tap.Active()
	})
	for range maxConsumers {
		connect(t, tap)
	}
	testkit.Eventually(t, "the consumers' admission", func() error {
		tap.mu.Lock()
		defer tap.mu.Unlock()
		if n := len(tap.consumers); n != maxConsumers {
			return fmt.Errorf("%d consumers are admitted, want %d", n, maxConsumers)
		}
		return nil
	})
	conn, err := net.Dial("unix", tap.opt.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("one too many reads %d bytes, %v", n, err)
	}
}
