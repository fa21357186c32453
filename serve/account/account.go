package account

import (
	"encoding/json"
	"fmt"
	"net/mail"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"sheaf/archive/naming"
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

// Scope is an account's domains as places in the tree, such as "jp/ac/waseda". It is sorted, and no
// place lies under another. The empty place is the root: every host.
type Scope []string

// Scope works out the account's scope from its Domains.
func (a *Account) Scope() Scope {
	var s Scope
	for _, d := range a.Domains {
		if d == "*" {
			return Scope{""}
		}
		s = append(s, naming.HostPath(d))
	}
	slices.Sort(s)
	s = slices.Compact(s)
	return slices.DeleteFunc(slices.Clone(s), func(p string) bool {
		return slices.ContainsFunc(s, func(q string) bool { return q != p && Within(p, q) })
	})
}

// Covers reports whether a host is within the account's scope.
func (a *Account) Covers(host string) bool { return a.Scope().Holds(naming.HostPath(host)) }

// Holds reports whether everything at and under a place belongs to the scope.
func (s Scope) Holds(place string) bool {
	return slices.ContainsFunc(s, func(p string) bool { return Within(place, p) })
}

// Everything reports whether the scope is the whole tree.
func (s Scope) Everything() bool { return len(s) == 1 && s[0] == "" }

// Under returns the places below which a place's part of the scope lies, in the order of
// catalog.Key: the place itself if the scope holds all of it.
func (s Scope) Under(place string) []string {
	var roots []string
	for _, p := range s {
		switch {
		case Within(place, p):
			return []string{place}
		case Within(p, place):
			roots = append(roots, p)
		}
	}
	slices.SortFunc(roots, func(a, b string) int { return strings.Compare(KeyPrefix(a), KeyPrefix(b)) })
	return roots
}

// KeyPrefix returns the common prefix of the catalog's keys of all hosts at and under a place. Keys
// of other hosts may have it too: "jp,ac" is also a prefix of "jp,acme".
func KeyPrefix(place string) string { return strings.ReplaceAll(place, "/", ",") }

// Within reports whether a place is root or lies under it, by whole elements. The same host on
// another port, "www_8080" beside "www", counts as under it.
func Within(place, root string) bool {
	rest, ok := strings.CutPrefix(place, root)
	return ok && (root == "" || rest == "" || rest[0] == '/' || IsPort(rest))
}

// IsPort reports whether s is the suffix that naming.HostPath gives a host with a port.
func IsPort(s string) bool {
	digits, ok := strings.CutPrefix(s, "_")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// Terms are the terms of use that an account's owner has accepted: which, when, and for which
// purpose. The zero value says that the owner has accepted none. An access rule can be open to
// accounts that have accepted certain terms.
type Terms struct {
	Name     string    `json:"name"`              // such as "research-2026"
	Purpose  string    `json:"purpose"`           // for which the archives may be used
	Accepted time.Time `json:"accepted,omitzero"` // when
}

// maxPurpose is the limit for a purpose, in bytes.
const maxPurpose = 1000

// check returns an ErrInvalid that says what is wrong with the terms of an account.
func (t Terms) check(name string) error {
	switch {
	case t == Terms{}:
		return nil
	case !IsName(t.Name):
		return fmt.Errorf("%w: %s: terms %.100q: want a name of 1 to 63 lower-case letters, digits, dots, hyphens or underscores", ErrInvalid, name, t.Name)
	case t.Accepted.IsZero():
		return fmt.Errorf("%w: %s: terms %s: say when they were accepted", ErrInvalid, name, t.Name)
	case strings.TrimSpace(t.Purpose) == "" || len(t.Purpose) > maxPurpose || strings.ContainsFunc(t.Purpose, unicode.IsControl):
		return fmt.Errorf("%w: %s: purpose %.100q: want one line of up to %d bytes", ErrInvalid, name, t.Purpose, maxPurpose)
	}
	return nil
}

// stored returns the terms as the database has them.
func (t Terms) stored() string {
	if t == (Terms{}) {
		return ""
	}
	t.Accepted = t.Accepted.UTC().Truncate(time.Second)
	text, _ := json.Marshal(t) // strings and a time between 0 and 9999: cannot fail
	return string(text)
}

func parseTerms(stored string) (t Terms, err error) {
	if stored != "" {
		err = json.Unmarshal([]byte(stored), &t)
	}
	return t, err
}

// NewAccount is the body of POST /v1/admin/accounts, and its answer. If it has no password, the
// service makes one. The answer is the only place that ever shows it.
type NewAccount struct {
	Account
	Password string `json:"password,omitempty"`
}

// AccountList is the answer of GET /v1/admin/accounts.
type AccountList struct {
	Accounts []AccountLine `json:"accounts"`
}

// AccountLine is an account and how many bytes it has fetched today.
type AccountLine struct {
	Account
	Today int64 `json:"today"`
}

// NewToken is the body of POST /v1/tokens, with name, uses and expiry, and its answer. The answer
// is the only place that ever shows the secret.
type NewToken struct {
	Token
	Secret string `json:"secret,omitempty"`
}

// TokenList is the answer of GET /v1/tokens, oldest first.
type TokenList struct {
	Tokens []Token `json:"tokens"`
}
