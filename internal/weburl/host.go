package weburl

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// parseHost parses a host: a name, an IPv4 address in any notation, or an IPv6 address in brackets.
func parseHost(s string, special bool) (string, error) {
	if strings.HasPrefix(s, "[") {
		return parseV6(s)
	}
	if !special {
		if strings.ContainsAny(s, "\x00\t\n\r #/:<>?@[\\]^|") {
			return "", errHost
		}
		return escape(s, controlSet), nil
	}
	if plainHost(s) {
		return s, nil
	}
	return parseName(s)
}

// parseName parses a name or an IPv4 address.
func parseName(s string) (string, error) {
	s = Unescape(s)
	if !utf8.ValidString(s) {
		return "", errHost
	}
	name, err := domainToASCII(s)
	if err != nil || name == "" || strings.IndexFunc(name, forbidden) >= 0 {
		return "", errHost
	}
	if endsInNumber(name) {
		return parseV4(name)
	}
	return name, nil
}

// plainHost reports whether a host is already in its final form, like most hosts: a lower-case name
// without escapes whose last label begins with a letter, or an IPv4 address in dotted decimal.
func plainHost(s string) bool {
	if s == "" || s[0] == '.' || len(s) > 253 {
		return false
	}
	label := 0 // start of the last label
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', isDigit(c), c == '_':
		case c == '-':
			if i >= 3 && s[i-1] == '-' { // perhaps xn--
				return false
			}
		case c == '.':
			label = i + 1
		default:
			return false
		}
	}
	if label == len(s) {
		return false
	}
	if c := s[label]; 'a' <= c && c <= 'z' {
		return true
	}
	addr, err := netip.ParseAddr(s)
	return err == nil && addr.Is4()
}

func parseV6(s string) (string, error) {
	if !strings.HasSuffix(s, "]") {
		return "", errHost
	}
	addr, err := netip.ParseAddr(s[1 : len(s)-1])
	if err != nil || !addr.Is6() || addr.Zone() != "" {
		return "", errHost
	}
	if addr.Is4In6() { // the standard does not use dotted decimal at the end
		b := addr.As16()
		hi, lo := uint64(b[12])<<8|uint64(b[13]), uint64(b[14])<<8|uint64(b[15])
		return "[::ffff:" + strconv.FormatUint(hi, 16) + ":" + strconv.FormatUint(lo, 16) + "]", nil
	}
	return "[" + addr.String() + "]", nil
}

// forbidden reports whether a domain must not contain the character.
func forbidden(r rune) bool {
	return r <= ' ' || r == 0x7f || strings.ContainsRune(`#/:<>?@[\]^|%`, r)
}

func domainToASCII(s string) (string, error) {
	lower := strings.ToLower(s)
	if isASCII(s) && !strings.Contains(lower, "xn--") {
		return lower, nil
	}
	profile := idna.New(
		idna.MapForLookup(),
		idna.Transitional(false),
		idna.BidiRule(),
		idna.StrictDomainName(false),
		idna.CheckHyphens(false),
		idna.VerifyDNSLength(false),
	)
	return profile.ToASCII(s)
}

func endsInNumber(name string) bool {
	name = strings.TrimSuffix(name, ".")
	last := name[strings.LastIndexByte(name, '.')+1:]
	if last == "" {
		return false
	}
	if strings.Trim(last, "0123456789") == "" {
		return true
	}
	_, ok := v4Number(last)
	return ok
}

// parseV4 parses one to four numbers, each decimal, octal (0…) or hexadecimal (0x…). The last one
// fills the remaining bytes.
func parseV4(name string) (string, error) {
	parts := strings.Split(strings.TrimSuffix(name, "."), ".")
	if len(parts) > 4 {
		return "", errHost
	}
	var addr uint64
	for i, part := range parts {
		n, ok := v4Number(part)
		last := i == len(parts)-1
		switch {
		case !ok, !last && n > 255, last && n >= 1<<(8*(5-len(parts))):
			return "", errHost
		case last:
			addr |= n
		default:
			addr |= n << (8 * (3 - i))
		}
	}
	return netip.AddrFrom4([4]byte{byte(addr >> 24), byte(addr >> 16), byte(addr >> 8), byte(addr)}).String(), nil
}

func v4Number(s string) (uint64, bool) {
	base := 10
	switch {
	case s == "":
		return 0, false
	case strings.HasPrefix(s, "0x"):
		base, s = 16, s[2:]
	case len(s) > 1 && s[0] == '0':
		base, s = 8, s[1:]
	}
	if s == "" {
		return 0, true
	}
	n, err := strconv.ParseUint(s, base, 63)
	return n, err == nil || errors.Is(err, strconv.ErrRange) // too large for any address
}
