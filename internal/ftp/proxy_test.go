package ftp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"sheaf/internal/peer"
	"sheaf/internal/testkit"
)

// proxied is a handler that notes where logins come from.
type proxied struct {
	*memory
	from chan string
}

func (p proxied) Login(ctx context.Context, user, password string, remote net.Addr) (Session, error) {
	p.from <- remote.String()
	return p.memory.Login(ctx, user, password, remote)
}

// Behind a trusted proxy the client's address is the one in the PROXY header, on the control
// connection and on data connections.
func TestProxyHeader(t *testing.T) {
	t.Parallel()
	p := proxied{newMemory(map[string]string{"/x": "12345"}), make(chan string, 1)}
	r := start(t, p, func(c *Config) {
		c.Proxies, _ = peer.ParseProxies([]string{"127.0.0.1"})
		c.MaxPerAddr = 1
	})
	begin := func(header string) *raw {
		nc, err := net.Dial("tcp", r.addr)
		testkit.Must(t, err)
		t.Cleanup(func() { nc.Close() })
		io.WriteString(nc, header)
		return &raw{nc, t, bufio.NewReader(nc)}
	}
	const header = "PROXY TCP4 192.0.2.7 198.51.100.1 4711 21\r\n"
	c := begin(header)
	c.expect("220")
	c.cmd("331", "USER alice")
	c.cmd("230", "PASS secret")
	if from := testkit.Receive(t, "a login", p.from); from != "192.0.2.7:4711" {
		t.Errorf("the login came from %s", from)
	}
	begin(header).expect("421 Too many connections from 192.0.2.7")
	begin(strings.Replace(header, "192.0.2.7", "192.0.2.8", 1)).expect("220")

	c.cmd("425 This server does not know its address for PASV", "PASV") // it is at 127.0.0.1, the client is not
	var port int
	text := c.cmd("229", "EPSV")
	_, err := fmt.Sscanf(text[strings.Index(text, "("):], "(|||%d|)", &port)
	testkit.Must(t, err)
	c.cmd("150", "RETR x")
	for _, from := range []string{"192.0.2.8", "192.0.2.7"} { // the first is another client of the proxy
		d, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		testkit.Must(t, err)
		defer d.Close()
		io.WriteString(d, strings.Replace(header, "192.0.2.7", from, 1))
		got, _ := io.ReadAll(d) // a reset says as much as an end
		if want := map[string]string{"192.0.2.7": "12345"}[from]; string(got) != want {
			t.Errorf("%s got %q, want %q", from, got, want)
		}
	}
	c.expect("226")

	if text, err := begin("USER alice\r\n").reply(); err == nil {
		t.Errorf("without a header came %q", text)
	}
}

// A header from an address that is not trusted is no header.
func TestForeignProxyHeader(t *testing.T) {
	t.Parallel()
	r := start(t, newMemory(nil), func(c *Config) { c.Proxies, _ = peer.ParseProxies([]string{"192.0.2.0/24"}) })
	c := dial(t, r.addr)
	c.expect("220")
	c.cmd("500", "PROXY TCP4 192.0.2.7 198.51.100.1 4711 21")
}
