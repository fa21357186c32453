package admin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sheaf/internal/settings"
)

// Paths of an installation by packages.
const (
	PackagedConfig = "/etc/sheaf/sheaf.yaml"
	PackagedData   = "/var/lib/sheaf"
)

// packagedSettings returns the package's settings file, or "" if this user can read no such file.
func packagedSettings() string {
	f, err := os.Open(PackagedConfig)
	if err != nil {
		return ""
	}
	f.Close()
	return PackagedConfig
}

// useEnvironment sets the variables that the package's unit has and this process lacks. So a
// command has all settings of the service: the database's address and the store's keys may stand
// only in the unit's environment. If the settings file is not in the package's directory,
// useEnvironment does nothing. The error names a file that this user may not read.
func useEnvironment(config string) error {
	dir, name := filepath.Split(config)
	if filepath.Clean(dir) != filepath.Dir(PackagedConfig) {
		return nil
	}
	var all error
	for _, file := range []string{strings.TrimSuffix(name, ".yaml") + ".environment", "environment"} { // the first takes precedence
		variables, err := settings.ReadEnvironment(filepath.Join(dir, file))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, fmt.Errorf("the service's environment: %w", err))
		}
		for name, value := range variables {
			if _, given := os.LookupEnv(name); !given {
				all = errors.Join(all, os.Setenv(name, value))
			}
		}
	}
	return all
}
