package hoststate

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Rules keeps the text of robots.txt files, a file for each host and scheme, so that they
// are asked for once a day and not after every start. The methods may be called by many
// goroutines, for one host by one at a time.
type Rules struct{ dir string }

// OpenRules opens or makes the folder.
func OpenRules(dir string) (*Rules, error) {
	return &Rules{dir}, os.MkdirAll(dir, 0o755)
}

// path spreads hosts over folders, none of which becomes too long to list.
func (r *Rules) path(scheme, host string) string {
	sum := sha256.Sum256([]byte(host))
	name := hex.EncodeToString(sum[:16])
	return filepath.Join(r.dir, name[:2], name+"."+scheme)
}

// Load returns the text, and until when it may be believed; false where there is none or it is
// too old. A text that was allowed to be missing is empty.
func (r *Rules) Load(scheme, host string) (text []byte, until time.Time, ok bool) {
	path := r.path(scheme, host)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, until, false // it is asked for again
	}
	body, ok := check(string(data))
	head, rules, _ := strings.Cut(body, "\n")
	stamp, name, _ := strings.Cut(head, " ")
	unix, err := strconv.ParseInt(stamp, 10, 64)
	now := time.Now()
	until = time.Unix(unix, 0)
	if !ok || err != nil || name != host || !now.Before(until) || until.After(now.Add(longest)) {
		_ = os.Remove(path) // it would only be found bad again
		return nil, until, false
	}
	return []byte(rules), until, true
}

// Save keeps a text until it is not to be believed any more.
func (r *Rules) Save(scheme, host string, text []byte, until time.Time) error {
	path := r.path(scheme, host)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	data := checked(fmt.Sprintf("%d %s\n%s", until.Unix(), host, text))
	if err := os.WriteFile(path+".new", []byte(data), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Forget drops what a host's robots.txt files say.
func (r *Rules) Forget(host string) error {
	var errs []error
	for _, scheme := range []string{"http", "https"} {
		if err := os.Remove(r.path(scheme, host)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
