package service

import "fmt"

// Packs puts small hosts together in the store.
type Packs struct {
	// Below gives hosts whose part of a batch is smaller than this an object
	// in the store together with others, such as 1MiB; 0: every host its own.
	Below Size `mapstructure:"below"`
	// Size is about how large such an object becomes.
	Size Size `mapstructure:"size"`
}

// check names the settings that cannot be.
func (p *Packs) check(bad func(key string, value any, why string) error) (errs []error) {
	if p.Size <= 0 {
		errs = append(errs, bad("packs.size", int64(p.Size), "is not positive"))
	}
	if p.Below < 0 || p.Below > p.Size {
		errs = append(errs, bad("packs.below", int64(p.Below), fmt.Sprintf("is not from 0 to packs.size, %d bytes", p.Size)))
	}
	return errs
}
