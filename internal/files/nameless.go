package files

import (
	"errors"
	"os"
)

// Nameless creates an empty file without a name in dir, or in the system's directory for temporary
// files if dir is empty.
func Nameless(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "sheaf-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
