package service

import "sheaf/ingest/foreign"

// Import bounds what one foreign file may become, whether an operator imports it or it comes by
// FTP.
type Import struct {
	// MaxBytes is how large the file may be once it is expanded.
	MaxBytes Size `mapstructure:"max_bytes"`
	// MaxEntries is how many entries of a tar, or records of a WARC, it may hold.
	MaxEntries int `mapstructure:"max_entries"`
}

func (i *Import) limits() foreign.Limits {
	return foreign.Limits{Bytes: int64(i.MaxBytes), Entries: int64(i.MaxEntries)}
}

// check names the settings that cannot be.
func (i *Import) check(bad func(key string, value any, why string) error) (errs []error) {
	if i.MaxBytes <= 0 {
		errs = append(errs, bad("import.max_bytes", int64(i.MaxBytes), "is not positive"))
	}
	if i.MaxEntries <= 0 {
		errs = append(errs, bad("import.max_entries", i.MaxEntries, "is not positive"))
	}
	return errs
}
