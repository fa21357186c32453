package polite

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

	"sheaf/robotd/config"
)

// Rules stores the texts of robots.txt files, in a file for each host and scheme, so that they are
// fetched once a day and not after every start. Its methods may be called concurrently for
// different hosts.
type Rules struct{ dir string }

// OpenRules opens or creates the folder.
func OpenRules(dir string) (*Rules, error) {
	return &Rules{dir}, os.MkdirAll(dir, 0o755)
}

// path returns the path of a host's file. Hosts are spread over folders, so that none becomes too
// long to list.
func (r *Rules) path(scheme, host string) string {
	sum := sha256.Sum256([]byte(host))
	name := hex.EncodeToString(sum[:16])
	return filepath.Join(r.dir, name[:2], name+"."+scheme)
}

// Load returns the text and the time until which it may be used. ok is false if the text is
// missing, damaged or too old. The text is empty if the host has no robots.txt.
func (r *Rules) Load(scheme, host string) (text []byte, until time.Time, ok bool) {
	path := r.path(scheme, host)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, until, false // it is fetched again
	}
	body, ok := config.Unsummed(string(data))
	head, rules, _ := strings.Cut(body, "\n")
	stamp, name, _ := strings.Cut(head, " ")
	unix, err := strconv.ParseInt(stamp, 10, 64)
	now := time.Now()
	until = time.Unix(unix, 0)
	if !ok || err != nil || name != host || !now.Before(until) || until.After(now.Add(longest)) {
		_ = os.Remove(path) // it is damaged
		return nil, until, false
	}
	return []byte(rules), until, true
}

// Save stores a text that may be used until the given time.
func (r *Rules) Save(scheme, host string, text []byte, until time.Time) error {
	path := r.path(scheme, host)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	data := config.Summed(fmt.Sprintf("%d %s\n%s", until.Unix(), host, text))
	if err := os.WriteFile(path+".new", []byte(data), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Forget deletes the stored robots.txt files of a host.
func (r *Rules) Forget(host string) error {
	return errors.Join(os.RemoveAll(r.path("http", host)), os.RemoveAll(r.path("https", host))) // they may be missing
}
