package service

import (
	"fmt"
	"time"

	"sheaf/manager"
)

// Balance says when and how hosts are shared out among robots.
type Balance struct {
	// At is the time of day, such as 01:00, at which they are shared out anew by what they
	// cost, in Zone; before the robots' window opens. Empty: never.
	At string `mapstructure:"at"`
	// During lets hosts that have not been begun go to robots that have nothing left, and
	// along the robots' tree where the backlogs differ.
	During bool `mapstructure:"during"`
	// Lease is how long a robot may be silent before its hosts go to others; 0: for ever.
	Lease time.Duration `mapstructure:"lease"`
	// Probes is how many distances each robot is asked to measure after a plan.
	Probes int `mapstructure:"probes"`
	// Window is how long a night of collecting is, to tell which hosts are too large for one robot; 0: not known.
	Window time.Duration `mapstructure:"window"`
	// Split shares the URLs of a host that does not fit into Window out among several robots, which
	// divide the allowed rate.
	Split bool `mapstructure:"split"`
}

const minLease = 10 * time.Minute // two heartbeats

func (b Balance) check(bad func(key string, value any, why string) error) (errs []error) {
	if _, err := b.at(); err != nil {
		errs = append(errs, bad("balance.at", b.At, "is no time of day, such as 01:00"))
	}
	if b.Lease != 0 && b.Lease < minLease {
		errs = append(errs, bad("balance.lease", b.Lease, fmt.Sprintf("is neither 0 nor at least %v", minLease)))
	}
	if b.Probes < 0 {
		errs = append(errs, bad("balance.probes", b.Probes, "is below 0"))
	}
	if b.Window < 0 {
		errs = append(errs, bad("balance.window", b.Window, "is below 0"))
	}
	return errs
}

// at gives the time of day since midnight.
func (b Balance) at() (time.Duration, error) {
	if b.At == "" {
		return 0, nil
	}
	t, err := time.Parse("15:04", b.At)
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, err
}

// options gives the manager's form of the settings, which were checked.
func (b Balance) options(zone *time.Location) manager.Balance {
	at, err := b.at()
	return manager.Balance{
		Daily: b.At != "" && err == nil, At: at, Zone: zone,
		During: b.During, Lease: b.Lease, Probes: b.Probes, Window: b.Window, Split: b.Split,
	}
}
