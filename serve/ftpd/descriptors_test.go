package ftpd_test

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/serve/servetest"
)

// A service whose descriptors run out stays up and goes on when there are some again.
func TestDescriptorsRunOut(t *testing.T) {
	s := servetest.New(t, nil)
	s.Publish("20261121", map[string][]*archive.Record{host: {servetest.Page("http://"+host+"/", "home", day)}})
	p := serveInProcess(t, s.Dir, "")
	want := retr(t, login(t, p.Addr, "jp"), dir+"20261121.tar.gz", 0)
	open := func() int {
		all, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.PIDs[0]))
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	limit := uint64(open() + 10)
	if err := unix.Prlimit(p.PIDs[0], unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}, nil); err != nil {
		t.Fatal(err)
	}
	var crowd []net.Conn
	for range 40 {
		c, err := net.Dial("tcp", p.Addr) // the system takes it, the service cannot
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		crowd = append(crowd, c)
	}
	testkit.Until(t, "all descriptors are open", func() bool { return open() >= int(limit)-1 })
	testkit.Throughout(t, "it stays up while it has none", 50*time.Millisecond, func() error { return unix.Kill(p.PIDs[0], 0) })
	for _, c := range crowd {
		c.Close()
	}
	testkit.Until(t, "descriptors are closed", func() bool { return open() <= int(limit)-8 })
	if got := retr(t, login(t, p.Addr, "jp"), dir+"20261121.tar.gz", 0); string(got) != string(want) {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
}
