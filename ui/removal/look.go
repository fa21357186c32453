package removal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"sheaf/internal/peer"
)

// Network is the access to files and DNS records of sites.
type Network struct {
	Resolver Resolver                                                             // nil: the system's
	Dial     func(ctx context.Context, network, address string) (net.Conn, error) // nil: the system's; it gets public addresses only
}

// Resolver looks names up. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupTXT(ctx context.Context, name string) ([]string, error)
}

const (
	lookTime    = 15 * time.Second // time limit for one look at a site
	looksAtOnce = 4
	maxFile     = 4 << 10 // bytes of a file that are read
	maxHops     = 3       // redirects that are followed, all within the host

	wellKnown  = "/.well-known/sheaf-removal.txt"
	recordName = "_sheaf-removal."
)

// Why a look found no proof.
var (
	errNoRecord = errors.New("no TXT record has the token")
	errNoToken  = errors.New("the file does not have the token")
	errPrivate  = errors.New("its address is not public")
	errNoAnswer = errors.New("the site does not answer")
	errLeaves   = errors.New("it redirects to another host")
)

func (n Network) resolver() Resolver { return cmp.Or[Resolver](n.Resolver, net.DefaultResolver) }

// record looks for the token in the site's DNS. It returns the record's name.
func (n Network) record(ctx context.Context, t target, token string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	name := recordName + t.name()
	texts, err := n.resolver().LookupTXT(ctx, name+".")
	if err != nil {
		return "", errors.Join(errNoRecord, err)
	}
	for _, text := range texts {
		if strings.TrimSpace(text) == token {
			return name, nil
		}
	}
	return "", errNoRecord
}

// file looks for the token in a file on the site. It returns the file's URL. If http does not
// answer, it uses https, with a certificate that must verify.
func (n Network) file(ctx context.Context, t target, token, contact string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	client := &http.Client{
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if r.URL.Hostname() != t.name() || r.URL.Port() != "" && r.URL.Port() != via[0].URL.Port() || len(via) > maxHops {
				return errLeaves
			}
			return nil
		},
		Transport: &http.Transport{DialContext: n.dial, DisableKeepAlives: true, DisableCompression: true, TLSHandshakeTimeout: lookTime, MaxResponseHeaderBytes: 64 << 10},
	}
	var err error
	for _, scheme := range []string{"http", "https"} {
		where := scheme + "://" + t.host + wellKnown
		if err = fetch(ctx, client, where, token, contact); err == nil {
			return where, nil
		}
		if !errors.Is(err, errNoAnswer) {
			break
		}
	}
	return "", err
}

func fetch(ctx context.Context, client *http.Client, where, token, contact string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return errors.Join(errNoAnswer, err)
	}
	agent := "sheaf-removal"
	if contact != "" {
		agent += " (+" + contact + ")"
	}
	r.Header.Set("User-Agent", agent)
	resp, err := client.Do(r)
	switch {
	case errors.Is(err, errPrivate), errors.Is(err, errLeaves):
		return err
	case err != nil:
		return errors.Join(errNoAnswer, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errNoToken
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxFile))
	if err != nil {
		return errors.Join(errNoAnswer, err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.TrimSpace(line) == token {
			return nil
		}
	}
	return errNoToken
}

// dial connects to a host at one of its public addresses.
func (n Network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	if ip, err := netip.ParseAddr(host); err == nil {
		addrs = []netip.Addr{ip}
	} else if addrs, err = n.resolver().LookupNetIP(ctx, "ip", host); err != nil {
		return nil, err
	}
	dial := n.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	err = errPrivate
	for _, ip := range addrs[:min(len(addrs), 4)] {
		if !peer.IsPublic(ip) {
			continue
		}
		conn, failed := dial(ctx, network, net.JoinHostPort(ip.Unmap().String(), port))
		if failed == nil {
			return conn, nil
		}
		err = fmt.Errorf("%s: %w", ip, failed)
	}
	return nil, err
}
