package wire

import (
	"errors"
	"net/mail"
	"net/url"
	"strings"
)

// CheckContact returns an error if a contact, a URL or a mail address, cannot be used to reach
// anybody. Robots with placeholder contacts have been banned, and their owners never learned why.
func CheckContact(contact string) error {
	if contact == "" {
		return errors.New("it is required: a URL or a mail address at which webmasters reach you")
	}
	domain := ""
	if u, err := url.Parse(contact); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		domain = u.Hostname()
	} else if a, err := mail.ParseAddress(strings.TrimPrefix(contact, "mailto:")); err == nil {
		domain = a.Address[strings.LastIndexByte(a.Address, '@')+1:]
	}
	domain = strings.ToLower(domain)
	switch {
	case strings.ContainsAny(contact, "\r\n()"):
		return errors.New("it holds a line end or parentheses")
	case !strings.Contains(domain, "."):
		return errors.New("it is neither a URL nor a mail address with a domain")
	}
	for _, placeholder := range []string{
		"example.com", "example.org", "example.net", "example.jp", "yourdomain.com", "your-domain.com", "example", "invalid", "localhost",
	} {
		if domain == placeholder || strings.HasSuffix(domain, "."+placeholder) {
			return errors.New("it is a placeholder; give an address at which webmasters reach you")
		}
	}
	return nil
}
