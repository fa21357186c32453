package polite

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"sheaf/internal/preference"
	"sheaf/robotd/config"
)

// Verdict is the result of fetching a robots.txt.
type Verdict struct {
	Rules *preference.Robots // nil: unknown what the host allows
	Text  []byte             // text of Rules; empty if everything is allowed
	Why   string             // for the log
}

// NotNow reports whether the host must be left alone until its robots.txt can be fetched. A host in
// trouble is never taken to allow anything.
func (v Verdict) NotNow() bool { return v.Rules == nil }

// FromResponse returns the verdict for the last answer to a request for robots.txt, after up to
// five redirects (RFC 9309, 2.3.1). Rules are obeyed. A file that does not exist, or whose
// redirects do not end, allows everything. A server that fails, asks to wait, cannot be reached or
// does not send all of the file allows nothing for now.
func FromResponse(status int, body []byte, err error) Verdict {
	switch {
	case err != nil:
		return Verdict{Why: fmt.Sprintf("robots.txt cannot be had: %v", err)}
	case status == http.StatusTooManyRequests || status >= 500:
		return Verdict{Why: fmt.Sprintf("robots.txt: the host answers %d", status)}
	case status == http.StatusPartialContent:
		return Verdict{Why: "robots.txt: the host sends a part of it"}
	case status >= 200 && status < 300:
		return Verdict{Rules: preference.ParseRobots(body), Text: body, Why: "robots.txt read"}
	case status >= 300 && status < 500:
		return Verdict{Rules: &preference.Robots{}, Why: fmt.Sprintf("no robots.txt (%d): all is allowed", status)}
	}
	return Verdict{Why: fmt.Sprintf("robots.txt: %d is no answer to a GET", status)}
}

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

// Library shares rules among hosts whose robots.txt has the same rules. Most hosts have no
// robots.txt, or one from a common program or hosting service that differs only in the sitemap's
// line. It may be used concurrently.
type Library struct {
	rules *lru.Cache[[sha256.Size]byte, *preference.Robots]
}

// Limits of what the library stores.
const (
	libraryTexts = 256
	libraryText  = 4 << 10 // bytes in the compared form; longer rules are rarely equal
)

// NewLibrary returns an empty library.
func NewLibrary() *Library {
	rules, _ := lru.New[[sha256.Size]byte, *preference.Robots](libraryTexts) // fails only without room
	return &Library{rules}
}

// Share returns equal rules without the sitemaps. Hosts with the same rules share them, so callers
// must not change them.
func (l *Library) Share(read *preference.Robots) *preference.Robots {
	own := read.Rules()
	said := fmt.Appendf(nil, "%#v", *own)
	if len(said) > libraryText {
		return own
	}
	key := sha256.Sum256(said)
	if known, ok := l.rules.Get(key); ok {
		return known
	}
	l.rules.Add(key, own)
	return own
}
