package service

import "sheaf/ingest"

// Uploads bounds what robots upload.
type Uploads struct {
	// Full is how full, in per cent, uploads may make a disk; what would fill it further is refused
	// until it has drained.
	Full int `mapstructure:"full"`
	// Drained is how full a disk that was Full may be, in per cent, for uploads to go on.
	Drained int `mapstructure:"drained"`
	// Least is how many bytes a second an upload must bring, on an average of
	// five minutes, or it is let go and goes on later; 0: any number.
	Least int `mapstructure:"least"`
}

func (u *Uploads) marks() ingest.Marks {
	return ingest.Marks{Full: float64(u.Full) / 100, Drained: float64(u.Drained) / 100}
}

// check names the settings that cannot be.
func (u *Uploads) check(bad func(key string, value any, why string) error) (errs []error) {
	if u.Full < 1 || u.Full > 100 {
		errs = append(errs, bad("uploads.full", u.Full, "is not from 1 to 100 per cent"))
	}
	if u.Drained < 1 || u.Drained > u.Full {
		errs = append(errs, bad("uploads.drained", u.Drained, "is not from 1 to uploads.full"))
	}
	if u.Least < 0 {
		errs = append(errs, bad("uploads.least", u.Least, "is negative"))
	}
	return errs
}
