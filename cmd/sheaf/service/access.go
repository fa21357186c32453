package service

import (
	"fmt"
	"time"

	"sheaf/internal/settings"
	"sheaf/internal/wire"
	"sheaf/serve/account"
)

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

// account returns the account of clients without credentials, or nil if they may fetch nothing.
func (a *Access) account() *account.Account {
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
