package settings_test

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"sheaf/internal/settings"
	"sheaf/internal/testkit"
)

// TestReadEnvironment: the file of the package's unit is read as systemd reads it.
func TestReadEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "environment")
	testkit.Must(t, os.WriteFile(file, []byte("# secrets\n; more\n\nSHEAF_STORE_ACCESS_KEY=abc\n SHEAF_STORE_SECRET_KEY = \"a=b c\"\nSHEAF_DATABASE_SEAL='0f'\nnothing\nEMPTY=\n"), 0o600))
	want := map[string]string{"SHEAF_STORE_ACCESS_KEY": "abc", "SHEAF_STORE_SECRET_KEY": "a=b c", "SHEAF_DATABASE_SEAL": "0f", "EMPTY": ""}
	if got, err := settings.ReadEnvironment(file); err != nil || !maps.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}
