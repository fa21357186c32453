package service

import (
	"time"

	"sheaf/serve/account"
	"sheaf/serve/bandwidth"
)

// Access says who may fetch what, and how fast.
type Access struct {
	// Anonymous are the domains whose archives everybody may fetch, such as [jp]; empty: nobody without an account.
	Anonymous []string `mapstructure:"anonymous"`
	// Offline is how long, once the database is away, those may log in whose accounts were known before; 0: not at all.
	Offline time.Duration `mapstructure:"offline"`
	// Grace is how long a transfer that began within a download window may run on after it.
	Grace time.Duration `mapstructure:"grace"`
	// Rate is how many bytes a second all downloads together may have, such as 100MiB or
	// "20MiB Mon-Fri 09:00-18:00 | 100MiB"; accounts share it evenly. Empty: no limit.
	Rate string `mapstructure:"rate"`
	// AnonymousRate is the same for all those without an account together; addresses share it
	// evenly, whatever the number of their connections. An IPv6 /64 network counts as one
	// address; loopback, where a proxy may stand, as none: transfers from there share evenly.
	AnonymousRate string `mapstructure:"anonymous_rate"`
	// AddressRate is the same for each address of those without an account. It does not hold for loopback.
	AddressRate string `mapstructure:"address_rate"`
	// Contact is whom consumers may ask, such as ops@example.jp; it stands in /README
	// and in what FTP tells those whom it turns away.
	Contact string `mapstructure:"contact"`
}

// check names the settings that cannot be.
func (a *Access) check(bad func(key string, value any, why string) error) (errs []error) {
	for key, text := range map[string]string{"access.rate": a.Rate, "access.anonymous_rate": a.AnonymousRate, "access.address_rate": a.AddressRate} {
		if _, err := rates(text); err != nil {
			errs = append(errs, bad(key, text, "is no rate: "+err.Error()))
		}
	}
	if a.Offline < 0 {
		errs = append(errs, bad("access.offline", a.Offline, "is negative"))
	}
	return errs
}

// account is the account of those who give no credentials, nil where there is none.
func (a *Access) account() *account.Account {
	if len(a.Anonymous) == 0 {
		return nil
	}
	rate, _ := rates(a.AnonymousRate) // was checked, as the next
	each, _ := rates(a.AddressRate)
	return &account.Account{Name: account.Anonymous, Domains: a.Anonymous, Rate: rate, Each: each}
}

// rates reads a rate; the empty text is no limit.
func rates(text string) (*bandwidth.Rates, error) {
	if text == "" {
		return nil, nil
	}
	return bandwidth.ParseRates(text)
}
