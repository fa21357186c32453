package ftp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

func TestLongLine(t *testing.T) {
	r := start(t, newMemory(nil), nil)
	c := dial(t, r.addr)
	c.expect("220")
	c.cmd("200", "NOOP %s", strings.Repeat("x", MaxLine-7-5)) // fits
	c = dial(t, r.addr)
	c.expect("220")
	io.WriteString(c, strings.Repeat("x", 3*MaxLine))
	c.expect("500")
	if _, err := c.reply(); err == nil {
		t.Error("connection stays open after a long line")
	}
}

func TestPipelinedAndCutLines(t *testing.T) {
	c := dial(t, start(t, newMemory(nil), nil).addr)
	c.expect("220")
	io.WriteString(c, "NOOP\r\nSYST\nUSER alice\r\nPA")
	for _, want := range []string{"200", "215", "331"} {
		c.expect(want)
	}
	io.WriteString(c, "SS secret\r\n")
	c.expect("230")
}

func TestBounceIsRefused(t *testing.T) {
	m := newMemory(map[string]string{"/x": "12345"})
	r := start(t, m, nil)
	c := login(t, r.addr)
	for _, to := range []string{"PORT 127,0,0,2,40,0", "PORT 10,0,0,1,40,0", "PORT 127,0,0,1,0,25", "EPRT |1|127.0.0.2|9999|", "EPRT |1|127.0.0.1|25|", "EPRT |2|::1|9999|"} {
		c.cmd("504", "%s", to)
	}
	for _, bad := range []string{"PORT 1", "PORT 127,0,0,1,300,1", "PORT a,b,c,d,e,f", "EPRT |", "EPRT |1|localhost|9999|", "EPRT |1|127.0.0.1|99999|", "EPRT |1|::1|9999|"} {
		c.cmd("501", "%s", bad)
	}
	c.cmd("522", "EPRT |3|127.0.0.1|9999|")
	c.cmd("522", "EPSV 2")
	c.cmd("425", "RETR x")

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	c.cmd("200", "PORT 127,0,0,1,%d,%d", port>>8, port&255)
	c.cmd("150", "RETR x")
	d, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(d); string(b) != "12345" {
		t.Errorf("active mode gave %q", b)
	}
	c.expect("226")
}

// TestForeignDataPeer connects to a passive port from another address.
func TestForeignDataPeer(t *testing.T) {
	m := newMemory(map[string]string{"/x": "12345"})
	c := login(t, start(t, m, func(c *Config) { c.PassivePorts = [2]int{20000, 60000} }).addr)
	text := c.cmd("227", "PASV")
	var ip [4]byte
	var hi, lo uint16
	if _, err := fmt.Sscanf(text[strings.Index(text, "("):], "(%d,%d,%d,%d,%d,%d)", &ip[0], &ip[1], &ip[2], &ip[3], &hi, &lo); err != nil {
		t.Fatal(err)
	}
	to := netip.AddrPortFrom(netip.AddrFrom4(ip), hi<<8|lo)
	if to.Port() < 20000 || to.Port() > 60000 {
		t.Errorf("port %d is out of the range", to.Port())
	}
	thief := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}
	stolen, err := thief.Dial("tcp", to.String())
	if err != nil {
		testkit.Missing(t, "no second loopback address: %v", err)
	}
	defer stolen.Close()
	c.cmd("150", "RETR x")
	if b, err := io.ReadAll(stolen); len(b) > 0 {
		t.Errorf("another address got %q (%v)", b, err)
	}
	own, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if b, _ := io.ReadAll(own); string(b) != "12345" {
		t.Errorf("the client got %q", b)
	}
	c.expect("226")
}

func TestPassivePorts(t *testing.T) {
	addresses := testkit.Addresses(t, 2)
	own, err := net.Listen("tcp", addresses[0])
	testkit.Must(t, err)
	busy, err := net.Listen("tcp", addresses[1])
	testkit.Must(t, err)
	defer busy.Close()
	port := busy.Addr().(*net.TCPAddr).Port
	c := login(t, start(t, newMemory(nil), func(c *Config) {
		c.Listener, c.PassivePorts = own, [2]int{port, port}
		c.PublicIP = netip.MustParseAddr("192.0.2.7")
	}).addr)
	c.cmd("425", "PASV")
	busy.Close()
	c.cmd("227 Entering Passive Mode (192,0,2,7,", "PASV")
	for range 20 { // each takes the place of the one before
		c.cmd("229", "EPSV")
	}
}

func TestCaps(t *testing.T) {
	r := start(t, newMemory(nil), func(c *Config) {
		c.MaxConns, c.MaxPerAddr, c.MaxPerAccount, c.Contact = 3, 2, 1, "ops@example.jp"
	})
	a := login(t, r.addr)
	bob := dial(t, r.addr)
	bob.expect("220")
	bob.cmd("331", "USER bob")
	bob.cmd("230", "PASS secret")
	dial(t, r.addr).expect("421 Too many connections from 127.0.0.1: at most 2 are allowed at once; questions: ops@example.jp")

	bob.cmd("221", "QUIT")
	bob.reply()
	var b *raw
	testkit.Until(t, "there is a place again", func() bool {
		b = dial(t, r.addr)
		text, _ := b.reply()
		return strings.HasPrefix(text, "220")
	})
	b.cmd("331", "USER alice")
	b.cmd("421 Too many connections of alice", "PASS secret")
	if _, err := b.reply(); err == nil {
		t.Error("connection stays open after 421")
	}
	a.cmd("221", "QUIT")
	a.reply()
	testkit.Until(t, "the account's place is given back, too", func() bool {
		c := dial(t, r.addr)
		if text, _ := c.reply(); !strings.HasPrefix(text, "220") {
			return false
		}
		c.cmd("331", "USER alice")
		fmt.Fprint(c, "PASS secret\r\n")
		text, _ := c.reply()
		return strings.HasPrefix(text, "230")
	})
}

func TestDeadlines(t *testing.T) {
	r := start(t, newMemory(nil), func(c *Config) { c.LoginTimeout, c.IdleTimeout = 200*time.Millisecond, 20*time.Millisecond })
	c := dial(t, r.addr)
	c.expect("220")
	c.cmd("200", "NOOP")
	c.expect("421 No login")
	login(t, r.addr).expect("421 No command")
}

func TestGuessing(t *testing.T) {
	m := newMemory(nil)
	r := start(t, m, nil)
	c := dial(t, r.addr)
	c.expect("220")
	for range maxTries {
		c.cmd("331", "USER alice")
		c.cmd("530 Wrong name or password", "PASS guess")
	}
	if text, err := c.reply(); err == nil {
		t.Errorf("after %d guesses came %q", maxTries, text)
	}
	c = dial(t, r.addr)
	c.expect("220")
	c.cmd("331", "USER alice")
	c.cmd("451 Local error", "PASS broken")
	c.cmd("503", "PASS secret")
	c.cmd("331", "USER alice")
	c.cmd("421 The window opens at 02:00", "PASS closed")
}

func TestConfigIsChecked(t *testing.T) {
	for _, cfg := range []Config{
		{PassivePorts: [2]int{2000, 1000}}, {PassivePorts: [2]int{0, 1000}}, {PassivePorts: [2]int{1, 70000}},
		{PublicIP: netip.MustParseAddr("2001:db8::1")}, {RequireTLS: true}, {Addr: "nowhere:at:all"},
	} {
		if err := Run(t.Context(), cfg, newMemory(nil)); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}

func TestGracefulStop(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	m := newMemory(map[string]string{"/slow": "12345"})
	m.gate = make(chan struct{})
	const greeting = "the server that stops"
	r := start(t, m, func(c *Config) { c.StopTimeout, c.Greeting = 10*time.Second, greeting })
	idle, anonymous, busy := login(t, r.addr), dial(t, r.addr), login(t, r.addr)
	anonymous.expect("220")
	d := busy.data()
	busy.cmd("150", "RETR slow")
	r.stop()
	idle.expect("421 The service is stopping")
	anonymous.expect("421")
	if nc, err := net.Dial("tcp", r.addr); err == nil {
		// A server of a parallel test may have the port by now.
		nc.SetDeadline(time.Now().Add(time.Second))
		if line, _ := bufio.NewReader(nc).ReadString('\n'); strings.Contains(line, greeting) {
			t.Error("still accepting")
		}
		nc.Close()
	}
	close(m.gate)
	if b, _ := io.ReadAll(d); string(b) != "12345" {
		t.Errorf("the running transfer gave %q", b)
	}
	busy.expect("226")
	busy.expect("421")
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	if m.closed != 2 {
		t.Errorf("%d sessions closed, want 2", m.closed)
	}
}

func TestStopCutsWhatIsLeft(t *testing.T) {
	m := newMemory(nil)
	r := start(t, m, func(c *Config) { c.StopTimeout = 20 * time.Millisecond })
	c := login(t, r.addr)
	d := c.data()
	c.cmd("150", "STOR a")
	io.WriteString(d, "half")
	r.stop()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	if commits, aborts := m.counts(); commits != 0 || aborts != 1 || !errors.Is(m.aborts[0], errStopped) {
		t.Errorf("%d commits, aborts %v", commits, m.aborts)
	}
}
