package admin

import (
	"os"
	"path/filepath"
	"testing"

	"aead.dev/minisign"

	"sheaf/internal/testkit"
)

// TestReleaseKey: a new key is encrypted with the password in the environment, is found again with
// it, and is not replaced. Without a password there is no new key.
func TestReleaseKey(t *testing.T) {
	testkit.Long(t) // the key of such a password takes 2 GiB and seconds
	path := filepath.Join(t.TempDir(), "release.key")
	if _, err := MakeOrReadKey(path, ""); err == nil {
		t.Error("a key was made without a password")
	}
	t.Setenv(PasswordVariable, "correct horse")
	made, err := MakeOrReadKey(path, "correct horse")
	testkit.Must(t, err)
	text, err := os.ReadFile(path)
	testkit.Must(t, err)
	if !minisign.IsEncrypted(text) {
		t.Error("the key is not encrypted")
	}
	found, err := MakeOrReadKey(path, "correct horse")
	testkit.Must(t, err)
	if !found.Equal(made) {
		t.Error("another key was found than was made")
	}
}
