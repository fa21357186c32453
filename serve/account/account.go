package account

import (
	"fmt"
	"net/mail"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"sheaf/internal/display"
	"sheaf/internal/peer"
	"sheaf/internal/window"
)

// Account says what one consumer may fetch, and when. A nil Window is always open. A nil Rate and a
// Quota of 0 are no limit.
type Account struct {
	Name    string           `json:"name"`
	Domains []string         `json:"domains"` // "jp" is every host under .jp, "*" every host
	Window  *window.Schedule `json:"window" doc:"when the account may fetch, such as 'Mon-Fri 00:00-12:00,13:00-24:00 Asia/Tokyo'; always; or never"`
	Rate    *Rates           `json:"rate,omitempty" doc:"bytes a second, such as 10MiB, '1MiB Mon-Fri 09:00-18:00 Asia/Tokyo | 10MiB' or unlimited"`
	Quota   int64            `json:"quota,omitempty"` // bytes a day
	Email   string           `json:"email,omitempty" doc:"mail address for links that set a new password"`
	Terms   Terms            `json:"terms,omitzero"`   // terms of use that the account's owner has accepted
	Created time.Time        `json:"created,omitzero"` // set by Accounts

	// Suspended: nobody can log in, and open sessions end.
	Suspended bool `json:"suspended,omitempty" doc:"keep everybody out of the account, until it is set to false"`

	// Each is the highest rate for each address that uses Anonymous; nil: no limit.
	Each  *Rates       `json:"-"`
	from  netip.Prefix // see From
	addr  netip.Addr   // of the client; not valid: unknown
	token *Token       // with which its client has logged in; nil: with the password
}

// Anonymous is the name of the account of clients that give no name. The account exists only if the
// operator configures it.
const Anonymous = "anonymous"

// operatorPrefix begins the names of accounts of ForOperator. No stored account can have such a
// name.
const operatorPrefix = "operator:"

// ForOperator returns the account by which an operator reads the archive: it covers every host,
// without a limit. Access rules apply to it as to other accounts.
func ForOperator(name string) *Account {
	return &Account{Name: operatorPrefix + name, Domains: []string{"*"}}
}

// Stored reports whether operators have added the account, so that it has an owner. Anonymous and
// the accounts of ForOperator are not stored.
func (a *Account) Stored() bool {
	return a.Name != Anonymous && !strings.HasPrefix(a.Name, operatorPrefix)
}

func (a *Account) limits() Limits {
	return Limits{Rate: a.Rate, Each: a.Each, Quota: a.Quota}
}

// From returns the account as a client at an address ("192.0.2.1:7") uses it. What the account sees
// may depend on the address. Clients of Anonymous share its rate by address. An IPv6 /64 network,
// which is what one customer has, counts as one address. A loopback address does not count, because
// a proxy may stand there: transfers from it share the rate one by one, like those of every other
// account.
func (a *Account) From(remote string) *Account {
	addr := peer.Addr(remote)
	if !addr.IsValid() {
		return a
	}
	there := a.at(addr)
	if a.Name == Anonymous && !addr.IsLoopback() {
		there.from = peer.Network(addr)
	}
	return there
}

// at is From for a parsed address, without sharing by address.
func (a *Account) at(addr netip.Addr) *Account {
	there := *a
	there.addr = addr.Unmap()
	return &there
}

// Address returns the address of the client that uses the account. It is not valid if no client
// uses it, as in background work.
func (a *Account) Address() netip.Addr { return a.addr }

var (
	validName   = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)
	validDomain = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]*[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]*[a-z0-9])?(:[0-9]{1,5})?$`)
)

// IsName reports whether a text can be an account's name.
func IsName(s string) bool { return validName.MatchString(s) }

// IsDomain reports whether a text can be a domain of an account, other than "*".
func IsDomain(s string) bool { return len(s) <= 253 && validDomain.MatchString(s) }

// check returns an ErrInvalid that says which field is wrong.
func (a *Account) check() error {
	if !validName.MatchString(a.Name) {
		return fmt.Errorf("%w: name %q: want 1 to 63 lower-case letters, digits, dots, hyphens or underscores", ErrInvalid, a.Name)
	}
	if len(a.Domains) == 0 {
		return fmt.Errorf("%w: %s has no domains; give some such as jp or waseda.ac.jp, or * for every host", ErrInvalid, a.Name)
	}
	if a.Quota < 0 {
		return fmt.Errorf("%w: %s: quota of %d bytes; want 0, for none, or more", ErrInvalid, a.Name, a.Quota)
	}
	if at, err := mail.ParseAddress(a.Email); a.Email != "" && (err != nil || at.Address != a.Email) {
		return fmt.Errorf("%w: %s: mail address %.100q: want a bare one, such as alice@example.jp", ErrInvalid, a.Name, a.Email)
	}
	if err := a.Terms.check(a.Name); err != nil {
		return err
	}
	for _, d := range a.Domains {
		if d != "*" && !IsDomain(d) {
			return fmt.Errorf("%w: %s: domain %q: want a lower-case name such as jp or waseda.ac.jp, or * for every host", ErrInvalid, a.Name, d)
		}
	}
	return nil
}

// same reports whether two states of an account have the same scope, limits and terms.
func (a *Account) same(b *Account) bool {
	return slices.Equal(a.Domains, b.Domains) && a.Window.String() == b.Window.String() &&
		storedRate(a.Rate) == storedRate(b.Rate) && a.Quota == b.Quota && a.Terms.Name == b.Terms.Name
}

// ParseQuota parses a number of bytes. Unless it is 0, it must have a unit: 50 is more likely a
// typing error for 50GiB than a quota of 50 bytes.
func ParseQuota(text string) (int64, error) {
	n, err := display.ParseBytes(strings.TrimSuffix(text, "B"))
	if unit := strings.TrimLeft(text, "0123456789."); err != nil || unit != "" && unit != "B" {
		return display.ParseBytes(text)
	} else if unit == "" && n != 0 {
		return 0, fmt.Errorf("%q has no unit; write %sGiB, %sMiB or %sB", text, text, text, text)
	}
	return n, nil
}
