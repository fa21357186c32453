package removal

import (
	"errors"
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"sheaf/archive/catalog"
	"sheaf/ingest/upkeep"
	"sheaf/internal/publicaddr"
	"sheaf/internal/wire"
)

// Kind says how much a request is about.
type Kind string

const (
	Host   Kind = "host"
	Prefix Kind = "prefix" // pages whose URL begins with it
	Domain Kind = "domain" // a domain and all hosts below it
)

// Errors of targets.
var (
	errTarget    = errors.New("not a host, URL or domain")
	errPage      = errors.New("a URL with a path, which is no host")
	errWhole     = errors.New("a URL without a path, which is the whole host")
	errNotPublic = errors.New("a name or address that is not of the public Internet")
)

// target is what a request is about.
type target struct {
	kind Kind
	text string // the host, URL or domain in normal form
	host string // the host, with its port; or the domain
}

const maxTarget = 2000 // bytes

// parseTarget reads what an asker has typed. Names in other scripts get their IDNA form.
func parseTarget(kind Kind, text string) (t target, err error) {
	normal, host, err := wire.NormalizeURL(strings.TrimSpace(text))
	if err != nil || len(normal) > maxTarget {
		return t, errTarget
	}
	u, err := url.Parse(normal)
	if err != nil {
		return t, errTarget
	}
	bare := u.Path == "/" && u.RawQuery == ""
	t = target{kind: kind, text: host, host: host}
	switch kind {
	case Host:
		if !bare {
			return t, errPage
		}
	case Prefix:
		if bare {
			return t, errWhole
		}
		t.text = normal
	case Domain:
		if !bare || u.Port() != "" || t.address().IsValid() {
			return t, errTarget
		}
	default:
		return t, errTarget
	}
	if ip := t.address(); ip.IsValid() {
		if !publicaddr.Is(ip) {
			return t, errNotPublic
		}
	} else if t.registered() == "" {
		return t, errNotPublic
	}
	if kind != Domain {
		for _, stone := range t.stones("asked for", "") { // a grant must not fail later
			if err := upkeep.CheckTakedown(stone); err != nil {
				return t, errTarget
			}
		}
	}
	return t, nil
}

// target returns what the request is about.
func (r *Request) target() target {
	t := target{kind: r.Kind, text: r.Target, host: r.Target}
	if r.Kind == Prefix {
		if u, err := url.Parse(r.Target); err == nil {
			t.host = u.Host
		}
	}
	return t
}

// name returns the target's host without its port.
func (t target) name() string {
	u := url.URL{Host: t.host}
	return u.Hostname()
}

// hasPort reports whether the target is a host at one port. Otherwise it is meant with all its
// ports.
func (t target) hasPort() bool {
	u := url.URL{Host: t.host}
	return u.Port() != ""
}

// address returns the address of a host that has no name.
func (t target) address() netip.Addr {
	a, _ := netip.ParseAddr(t.name()) // the zero Addr for a name
	return a
}

// registered returns the domain by which the target's owner is registered, as the public suffix
// list has it. It is "" for an address, and for a public suffix, which is nobody's.
func (t target) registered() string {
	if t.address().IsValid() {
		return ""
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(t.name())
	if err != nil {
		return ""
	}
	return domain
}

// site returns what limits count as one site.
func (t target) site() string {
	if domain := t.registered(); domain != "" {
		return domain
	}
	return t.name()
}

// addresses returns the mail addresses at the site whose owners may speak for it: those of
// CA/Browser Forum Baseline Requirements 3.2.2.4.4, except administrator@, at the host and at its
// registered domain. A target without a name has none.
func (t target) addresses() (list []string) {
	domain := t.registered()
	if domain == "" {
		return nil
	}
	for _, at := range slices.Compact([]string{t.name(), domain}) {
		for _, who := range []string{"postmaster", "webmaster", "hostmaster", "admin"} {
			list = append(list, who+"@"+at)
		}
	}
	return list
}

// stones returns the take-downs of a host or URL prefix. A prefix holds for http and https.
func (t target) stones(reason, by string) (list []catalog.Tombstone) {
	if t.kind != Prefix {
		return []catalog.Tombstone{{Host: t.host, Reason: reason, By: by}}
	}
	_, rest, _ := strings.Cut(t.text, "://")
	for _, scheme := range []string{"http", "https"} {
		list = append(list, catalog.Tombstone{Host: t.host, URLPrefix: scheme + "://" + rest, Reason: reason, By: by})
	}
	return list
}

// parseAddress reads a bare mail address.
func parseAddress(text string) (string, bool) {
	text = strings.TrimSpace(text)
	a, err := mail.ParseAddress(text)
	if err != nil || a.Address != text || len(text) > 254 || strings.ContainsAny(text, "\r\n<>\"") {
		return "", false
	}
	return text, true
}
