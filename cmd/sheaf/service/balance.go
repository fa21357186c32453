package service

import (
	"fmt"
	"time"

	"sheaf/internal/settings"
	"sheaf/internal/wire"
	"sheaf/manager"
)

// Balance is the settings by which hosts are shared out among robots.
type Balance struct {
	At     string        `mapstructure:"at"`                        // time of day, such as 01:00; empty: never
	During bool          `mapstructure:"during"`                    // at night, also move hosts that have not been begun
	Lease  time.Duration `mapstructure:"lease"`                     // how long a robot may go on without hearing from the service before its hosts go to others; 0: without end
	Brief  bool          `mapstructure:"-"`                         // allows a Lease that is too short for operators; for tests
	Window time.Duration `mapstructure:"window" want:"at least 0s"` // length of a night of collecting; robots share hosts that take longer; 0: unknown
}

const (
	minLease = 10 * time.Minute // two heartbeats
	probes   = 4                // number of distances that each robot measures after a plan
)

func (b Balance) check(is *settings.Checks) {
	_, err := b.at()
	is.Require(err == nil, "balance.at", b.At, "want a time of day, such as 01:00")
	is.Require(b.Lease == 0 || (b.Lease >= minLease || b.Brief) && b.Lease <= wire.MaxLease, "balance.lease", b.Lease, fmt.Sprintf("want 0, or from %v to %v", minLease, wire.MaxLease))
}

// at returns At as the time since midnight.
func (b Balance) at() (time.Duration, error) {
	if b.At == "" {
		return 0, nil
	}
	t, err := time.Parse("15:04", b.At)
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, err
}

// options returns the settings in the manager's form. The settings must have been checked.
func (b Balance) options(zone *time.Location) manager.Balance {
	at, err := b.at()
	return manager.Balance{
		Daily: b.At != "" && err == nil, At: at, Zone: zone,
		During: b.During, Lease: b.Lease, Probes: probes, Window: b.Window, Split: true,
	}
}
