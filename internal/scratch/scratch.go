// Package scratch makes temporary files that leave nothing behind: they have no name, so
// the system takes them back when they are closed, however the process ends.
package scratch

import (
	"errors"
	"os"
)

// File makes an empty file in dir, which is the system's directory for such where it is empty.
func File(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "sheaf-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
