package mirror

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/jdx/go-netrc"
)

// Credentials returns the account for a service: that in the URL, the given one, or that in the
// netrc file ($NETRC, or ~/.netrc), in this order. If there is a name without a password, the
// password may be in the netrc file.
func Credentials(to *url.URL, givenUser, givenPassword string) (user, password string, err error) {
	user = to.User.Username()
	password, known := to.User.Password()
	if user == "" {
		user, password, known = givenUser, givenPassword, givenPassword != ""
	}
	if user != "" && known {
		return user, password, nil
	}
	path := os.Getenv("NETRC")
	if path == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return user, password, nil
		}
		path = filepath.Join(home, ".netrc")
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return user, password, nil
	}
	file, err := netrc.Parse(path)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", path, err)
	}
	m := file.Machine(to.Hostname())
	if m == nil || user != "" && m.Get("login") != user {
		return user, password, nil
	}
	return m.Get("login"), m.Get("password"), nil
}
