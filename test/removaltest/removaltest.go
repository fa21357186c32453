// Package removaltest plays an internet on this machine, for tests of the removal desk.
package removaltest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"sheaf/ui/removal"
)

// Public is a public address. Connections to it lead to the internet's web server.
const Public = "8.8.8.8"

// File is the path of the file that proves a request.
const File = "/.well-known/sheaf-removal.txt"

// Internet has names, DNS records, and one web server that is at every address on port 80.
type Internet struct {
	server string // host:port

	mu     sync.Mutex // guards all below
	names  map[string]string
	texts  map[string][]string
	files  map[string]string
	dialed []string
}

// New returns an internet without names, until the test ends.
func New(t testing.TB) *Internet {
	n := &Internet{names: map[string]string{}, texts: map[string][]string{}, files: map[string]string{}}
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	n.server = server.Listener.Addr().String()
	return n
}

// Network returns the resolver and the dialer by which a desk reaches the internet.
func (n *Internet) Network() removal.Network { return removal.Network{Resolver: n, Dial: n.dial} }

// Name gives a name its addresses, with blanks between.
func (n *Internet) Name(host, addresses string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[host] = addresses
}

// Record gives a name TXT records.
func (n *Internet) Record(name string, texts ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.texts[name+"."] = texts
}

// File puts a file on a site. If its text is "to URL", the site redirects to the URL.
func (n *Internet) File(host, path, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.files[host+path] = text
}

// Dialed returns the addresses to which connections were made.
func (n *Internet) Dialed() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.dialed)
}

func (n *Internet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	text, ok := n.files[r.Host+r.URL.Path]
	n.mu.Unlock()
	where, redirect := strings.CutPrefix(text, "to ")
	switch {
	case !ok:
		http.NotFound(w, r)
	case redirect:
		http.Redirect(w, r, where, http.StatusFound)
	default:
		io.WriteString(w, text)
	}
}

// LookupNetIP implements removal.Resolver.
func (n *Internet) LookupNetIP(_ context.Context, _, host string) (list []netip.Addr, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for a := range strings.FieldsSeq(n.names[host]) {
		list = append(list, netip.MustParseAddr(a))
	}
	if len(list) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return list, nil
}

// LookupTXT implements removal.Resolver.
func (n *Internet) LookupTXT(_ context.Context, name string) ([]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.texts[name] == nil {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return n.texts[name], nil
}

func (n *Internet) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dialed = append(n.dialed, address)
	n.mu.Unlock()
	if strings.HasSuffix(address, ":443") {
		return nil, errors.New("connection refused")
	}
	return new(net.Dialer).DialContext(ctx, network, n.server)
}
