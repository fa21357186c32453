package serve

import (
	"cmp"
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"

	"sheaf/internal/mailer"
	"sheaf/internal/settings"
	"sheaf/internal/wire"
	"sheaf/serve/account"
)

// Settings are those of the room. deploy/sheaf.yaml explains each of them.
type Settings struct {
	Site struct {
		Name    string `mapstructure:"name"`     // of the archive, on the pages for people
		NameJA  string `mapstructure:"name_ja"`  // on Japanese pages; empty: name
		About   string `mapstructure:"about"`    // whose it is and what for, in a sentence or two
		AboutJA string `mapstructure:"about_ja"` // on Japanese pages; empty: about
	} `mapstructure:"site"`
	Access Access `mapstructure:"access"`
	Watch  Watch  `mapstructure:"watch"`
	Replay struct {
		Dir    string `mapstructure:"dir"`    // directory with ui.js and sw.js of ReplayWeb.page; empty: not offered
		Origin string `mapstructure:"origin"` // such as https://replay.example.jp; empty: not offered
	} `mapstructure:"replay"`
	Tables struct {
		Days  int `mapstructure:"days" want:"at least 0"`  // number of newest days that have tables; 0: none
		Texts int `mapstructure:"texts" want:"at least 0"` // number of newest days that have the texts of their pages
	} `mapstructure:"tables"`
	Volumes struct {
		Current []string      `mapstructure:"current"`               // top-level domains that have volumes of the latest versions
		Every   time.Duration `mapstructure:"every" want:"above 0s"` // age at which these volumes are made anew
	} `mapstructure:"volumes"`
}

// Access is the settings of who may fetch what, and how fast. Rates have the grammar of
// account.ParseRates; an empty rate is no limit.
type Access struct {
	Anonymous     []string      `mapstructure:"anonymous"`                  // domains that everybody may fetch without an account
	Offline       time.Duration `mapstructure:"offline" want:"at least 0s"` // how long known accounts may log in after the database has gone away; 0: not at all
	Grace         time.Duration `mapstructure:"grace" want:"at least 0s"`   // how long a transfer may go on after its window
	Rate          string        `mapstructure:"rate"`                       // of all downloads together, divided evenly among accounts
	AnonymousRate string        `mapstructure:"anonymous_rate"`             // of all downloads without an account, divided evenly among addresses
	AddressRate   string        `mapstructure:"address_rate"`               // of each address without an account, except loopback
	Contact       string        `mapstructure:"contact"`                    // for consumers' questions
}

// Watch is the settings by which consumers are told of changes.
type Watch struct {
	Limit           int           `mapstructure:"limit" want:"above 0"` // most watches of one account
	Confirmed       bool          `mapstructure:"confirmed"`            // mail addresses count as confirmed
	PrivateWebhooks bool          `mapstructure:"private_webhooks"`     // webhooks may be at private addresses and on this machine
	Mail            mailer.Server `mapstructure:"mail"`
}

// Check checks the settings. public is the service's own URL, or empty.
func (s *Settings) Check(is *settings.Checks, public string) {
	s.Access.check(is)
	is.Require(areTopLevel(s.Volumes.Current), "volumes.current", s.Volumes.Current, "want top-level domains, each once, such as [jp]")
	if m := &s.Watch.Mail; m.Address != "" {
		a, err := mail.ParseAddress(m.From)
		is.Require(err == nil && a.Address == m.From, "watch.mail.from", m.From, "want a bare address, such as archive@example.jp")
	}
	s.checkReplayOrigin(is, public)
}

func (s *Settings) checkReplayOrigin(is *settings.Checks, public string) {
	origin := s.Replay.Origin
	if origin == "" {
		return
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		is.Require(false, "replay.origin", origin, "want scheme and host, such as https://replay.example.jp")
		return
	}
	port := func(u *url.URL) string {
		return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	own, err := url.Parse(public)
	is.Require(err != nil || !strings.EqualFold(own.Hostname(), u.Hostname()) || port(own) != port(u), "replay.origin", origin,
		"is the origin of http.public; stored scripts need a name that nothing else uses")
}

// areTopLevel reports whether all domains are top-level domains, and no domain is listed twice.
func areTopLevel(domains []string) bool {
	for i, d := range domains {
		if !account.IsDomain(d) || strings.Contains(d, ".") || slices.Contains(domains[:i], d) {
			return false
		}
	}
	return true
}

func (a *Access) check(is *settings.Checks) {
	if a.Contact != "" {
		err := wire.CheckContact(a.Contact)
		is.Require(err == nil, "access.contact", a.Contact, fmt.Sprint(err))
	}
	for _, r := range [][2]string{{"access.rate", a.Rate}, {"access.anonymous_rate", a.AnonymousRate}, {"access.address_rate", a.AddressRate}} {
		_, err := rates(r[1])
		is.Require(err == nil, r[0], r[1], fmt.Sprint(err))
	}
}

// anonymous returns the account of clients without credentials, or nil if they may fetch nothing.
func (a *Access) anonymous() *account.Account {
	if len(a.Anonymous) == 0 {
		return nil
	}
	rate, _ := rates(a.AnonymousRate) // both were checked
	each, _ := rates(a.AddressRate)
	return &account.Account{Name: account.Anonymous, Domains: a.Anonymous, Rate: rate, Each: each}
}

// rates parses a rate. It returns nil for an empty text, because that is no limit.
func rates(text string) (*account.Rates, error) {
	if text == "" {
		return nil, nil
	}
	return account.ParseRates(text)
}

// Mailer returns the mail server, or nil if no server is set.
func (w *Watch) Mailer() (*mailer.Server, error) {
	s := w.Mail
	if s.Address == "" {
		return nil, nil
	}
	if err := settings.ReadSecret("watch.mail.password_file", s.PasswordFile, &s.Password); err != nil {
		return nil, err
	}
	return &s, nil
}
