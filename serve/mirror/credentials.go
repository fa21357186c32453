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

// Credentials finds a consumer's account: in the service's URL, as it is given beside, or in the netrc file
// ($NETRC, or ~/.netrc), in this order. A name without a password is looked up there too.
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
