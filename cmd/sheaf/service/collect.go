package service

import (
	"time"

	"sheaf/archive/catalog"
)

// leastKept is the shortest collect.keep: consumers that come once a day miss no edition.
const leastKept = 48 * time.Hour

// Collect is when what nothing needs any more is deleted.
type Collect struct {
	// Every is how often the store is gone through.
	Every time.Duration `mapstructure:"every"`
	// Delay is how long an object that nothing needs is kept; at least 24h, twice as long as a reader may hold a version.
	Delay time.Duration `mapstructure:"delay"`
	// Keep is how long a host's editions are kept, such as 720h; 0: for ever. A longer
	// time is kept what current is made of, and what later editions refer to.
	Keep time.Duration `mapstructure:"keep"`
}

// check names the settings that cannot be.
func (c *Collect) check(bad func(key string, value any, why string) error) (errs []error) {
	if c.Every <= 0 {
		errs = append(errs, bad("collect.every", c.Every, "is not positive"))
	}
	if c.Delay < catalog.MinDelay {
		errs = append(errs, bad("collect.delay", c.Delay, "is less than "+catalog.MinDelay.String()))
	}
	if c.Keep < 0 || c.Keep > 0 && c.Keep < leastKept {
		errs = append(errs, bad("collect.keep", c.Keep, "is neither 0 nor at least "+leastKept.String()))
	}
	return errs
}
