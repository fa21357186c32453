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
	"sheaf/archive/upkeep"
	"sheaf/internal/peer"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
)

// Kind says how much of a site a request is about.
type Kind string

const (
	Host   Kind = "host"
	Prefix Kind = "prefix" // pages whose URL begins with the target
	Domain Kind = "domain" // a domain and all hosts below it
)

// Errors of targets.
var (
	errTarget    = errors.New("not a host, URL or domain")
	errPage      = errors.New("a URL with a path, which is no host")
	errWhole     = errors.New("a URL without a path, which is the whole host")
	errNotPublic = errors.New("a name or address that is not of the public Internet")
)

// target is the subject of a request.
type target struct {
	kind Kind
	text string // the host, URL or domain in normal form
	host string // the host, with its port; or the domain
}

const maxTarget = 2000 // bytes

// parseTarget reads an asker's text. Names in other scripts get their IDNA form.
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
		p, err := weburl.ParsePrefix(normal)
		if err != nil || p.Host() != host {
			return t, errTarget
		}
		t.text = p.String()
	case Domain:
		if !bare || u.Port() != "" || t.address().IsValid() {
			return t, errTarget
		}
	default:
		return t, errTarget
	}
	if ip := t.address(); ip.IsValid() {
		if !peer.IsPublic(ip) {
			return t, errNotPublic
		}
	} else if t.registered() == "" {
		return t, errNotPublic
	}
	if kind != Domain {
		if err := upkeep.CheckTakedown(t.stone("asked for", "")); err != nil { // so that a grant does not fail later
			return t, errTarget
		}
	}
	return t, nil
}

// target returns the subject of the request.
func (r *Request) target() target {
	t := target{kind: r.Kind, text: r.Target, host: r.Target}
	if r.Kind == Prefix {
		t.host = weburl.PrefixOf(r.Target).Host()
	}
	return t
}

// name returns the target's host without its port.
func (t target) name() string {
	u := url.URL{Host: t.host}
	return u.Hostname()
}

// hasPort reports whether the target is a host at one port. Otherwise all ports of the host are
// meant.
func (t target) hasPort() bool {
	u := url.URL{Host: t.host}
	return u.Port() != ""
}

// address returns the target's IP address, or the zero Addr if the target has a name.
func (t target) address() netip.Addr {
	a, _ := netip.ParseAddr(t.name()) // the zero Addr for a name
	return a
}

// registered returns the registered domain of the target by the public suffix list. It is "" for an
// IP address, and for a public suffix, which nobody owns.
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

// site returns the name under which limits count the target.
func (t target) site() string {
	if domain := t.registered(); domain != "" {
		return domain
	}
	return t.name()
}

// addresses returns the mail addresses whose owners may speak for the site: those of CA/Browser
// Forum Baseline Requirements 3.2.2.4.4, except administrator@, at the host and at its registered
// domain. It returns nil if the target has no registered domain.
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

// stone returns the take-down of a host or URL prefix.
func (t target) stone(reason, by string) catalog.Tombstone {
	s := catalog.Tombstone{Host: t.host, Reason: reason, By: by}
	if t.kind == Prefix {
		s.URLPrefix = t.text
	}
	return s
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
