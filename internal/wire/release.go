package wire

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"aead.dev/minisign"
)

// Paths from which programs are fetched. PathInstaller and PathReleases need no credentials, since
// the robot verifies the fetched files by digest and signature.
const (
	PathReport    = "/v1/robots/{robot}/report" // POST: ReportRequest
	PathInstaller = "/install.sh"               // GET
	PathReleases  = "/releases"                 // GET /releases/{counter}/RELEASE, RELEASE.minisig, robotd-PLATFORM
)

// ReportRequest is a robot's report about its program, when it starts and at every poll.
type ReportRequest struct {
	Version  string          `json:"version"`
	Platform string          `json:"platform"`         // GOOS-GOARCH
	Counter  int64           `json:"counter"`          // of the running release; 0: not a release, such as a local build
	Seen     int64           `json:"seen"`             // highest counter that the robot has verified
	Failed   []FailedRelease `json:"failed,omitempty"` // releases that the robot has undone
	NoKey    bool            `json:"no_key,omitempty"` // the robot joined before there was a release key, and needs it
}

// FailedRelease is a release that a robot has tried and undone.
type FailedRelease struct {
	Counter int64  `json:"counter"`
	Why     string `json:"why"`
}

// ReportAnswer is the answer to a ReportRequest. If there is neither a release nor a key for the
// robot, the answer is 204.
type ReportAnswer struct {
	Offer // its Release is empty if there is no release for the robot

	Key *SignedReleaseKey `json:"key,omitempty"` // answers NoKey, once there is a key
}

// Offer is a release that a robot may install.
type Offer struct {
	Release   string `json:"release"`   // text; see Release
	Signature string `json:"signature"` // minisign's, over the text
}

// SignedReleaseKey is the minisign key of the releases, signed for one robot. The service signs it
// with the key that the robot got when it joined, so the robot can trust the release key as much as
// the service's key.
type SignedReleaseKey struct {
	Key       string `json:"key"`
	Signature []byte `json:"signature"` // Ed25519, over "sheaf release key of robot <name>: <key>"
}

// SignReleaseKey signs the release key for a robot. by is the service's key.
func SignReleaseKey(robot, key string, by ed25519.PrivateKey) *SignedReleaseKey {
	return &SignedReleaseKey{key, ed25519.Sign(by, releaseKeyText(robot, key))}
}

// Verify returns nil if one of the service's keys signed this release key for the robot, and
// ErrSignature if none did.
func (k *SignedReleaseKey) Verify(robot string, keys ...ed25519.PublicKey) error {
	for _, by := range keys {
		if len(by) == ed25519.PublicKeySize && ed25519.Verify(by, releaseKeyText(robot, k.Key), k.Signature) {
			return nil
		}
	}
	return ErrSignature
}

func releaseKeyText(robot, key string) []byte {
	return fmt.Appendf(nil, "sheaf release key of robot %s: %s", robot, key)
}

// Names of the two files of a release. The programs are in the same directory.
const (
	FileName      = "RELEASE"
	SignatureName = "RELEASE.minisig"
)

// MaxReleaseText is the limit for the text and for the signature, in bytes.
const MaxReleaseText = 16 << 10

// maxProgram is the limit for a program, in bytes.
const maxProgram = 1 << 30

const title = "sheaf robotd release"

var (
	// ErrReleaseSignature says that the text is not signed with the expected key.
	ErrReleaseSignature = errors.New("the release is not signed with the key that this robot trusts")
	// ErrExpired says that the release has expired.
	ErrExpired = errors.New("the release has expired")
)

// Release describes a release, for a robot that is about to fetch a program.
type Release struct {
	Counter int64         // from 1; higher with each release
	Version string        // for people
	Expires time.Time     // whole seconds, UTC
	Floor   int64         // lowest counter that may still run; 0: any
	Files   []ReleaseFile // one for each platform, sorted
}

// ReleaseFile is the program for one platform.
type ReleaseFile struct {
	Platform string // GOOS-GOARCH, such as linux-amd64
	Size     int64  // bytes
	SHA256   string // hexadecimal
}

// ProgramName returns the file name under which the service offers a platform's program.
func ProgramName(platform string) string { return "robotd-" + platform }

var (
	versionForm  = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}$`)
	platformForm = regexp.MustCompile(`^[a-z0-9]{1,16}-[a-z0-9]{1,16}$`)
)

// File returns the program for a platform, or false if the release has no such program.
func (r *Release) File(platform string) (ReleaseFile, bool) {
	i := slices.IndexFunc(r.Files, func(f ReleaseFile) bool { return f.Platform == platform })
	if i < 0 {
		return ReleaseFile{}, false
	}
	return r.Files[i], true
}

// Format returns the text to be signed. It returns an error if a field has a value that
// ParseRelease refuses.
func (r *Release) Format() ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	return r.format(), nil
}

func (r *Release) format() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\ncounter %d\nversion %s\nexpires %s\nfloor %d\n", title, r.Counter, r.Version, r.Expires.UTC().Format(time.RFC3339), r.Floor)
	for _, f := range r.Files {
		fmt.Fprintf(&b, "file %s %d %s\n", f.Platform, f.Size, f.SHA256)
	}
	return b.Bytes()
}

func (r *Release) check() error {
	if r.Counter < 1 || r.Floor < 0 || r.Floor > r.Counter {
		return fmt.Errorf("release: counter %d and floor %d: want 0 <= floor <= counter, and a counter from 1", r.Counter, r.Floor)
	}
	if !versionForm.MatchString(r.Version) {
		return fmt.Errorf("release: version %q: want 1 to 64 of letters, digits and .+_-", r.Version)
	}
	if !r.Expires.Equal(r.Expires.Truncate(time.Second)) {
		return errors.New("release: the expiry is not in whole seconds")
	}
	if len(r.Files) == 0 {
		return errors.New("release: it has no programs")
	}
	for i, f := range r.Files {
		if !platformForm.MatchString(f.Platform) || f.Size < 1 || f.Size > maxProgram || !ValidDigest(f.SHA256) {
			return fmt.Errorf("release: program %q of %d bytes, SHA-256 %q, is not well formed", f.Platform, f.Size, f.SHA256)
		}
		if i > 0 && r.Files[i-1].Platform >= f.Platform {
			return fmt.Errorf("release: program %q is out of order, or there twice", f.Platform)
		}
	}
	return nil
}

// ParseRelease parses a release's text, which must be exactly as Format writes it. It does not
// check the signature: see OpenRelease.
func ParseRelease(text []byte) (*Release, error) {
	if len(text) > MaxReleaseText {
		return nil, fmt.Errorf("release: longer than %d bytes", MaxReleaseText)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	r := new(Release)
	var errs []error
	number := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		errs = append(errs, err)
		return n
	}
	for i, line := range lines {
		key, value, _ := strings.Cut(line, " ")
		switch {
		case i == 0:
		case key == "counter":
			r.Counter = number(value)
		case key == "version":
			r.Version = value
		case key == "expires":
			t, err := time.Parse(time.RFC3339, value)
			r.Expires, errs = t, append(errs, err)
		case key == "floor":
			r.Floor = number(value)
		case key == "file":
			f := strings.Split(value, " ")
			if len(f) != 3 {
				return nil, fmt.Errorf("release: line %d: want file PLATFORM SIZE SHA256", i+1)
			}
			r.Files = append(r.Files, ReleaseFile{Platform: f[0], Size: number(f[1]), SHA256: f[2]})
		}
	}
	if err := errors.Join(append(errs, r.check())...); err != nil {
		return nil, err
	}
	if !bytes.Equal(r.format(), text) { // unknown keys, another order, a missing title
		return nil, errors.New("release: the text is not in the form that this program knows")
	}
	return r, nil
}

// OpenRelease verifies a release's signature with the key and then parses its text. If the release
// has expired it returns both the release and ErrExpired.
func OpenRelease(text, signature []byte, key minisign.PublicKey, now time.Time) (*Release, error) {
	if len(text) > MaxReleaseText || len(signature) > MaxReleaseText || !minisign.Verify(key, text, signature) {
		return nil, ErrReleaseSignature
	}
	r, err := ParseRelease(text)
	if err != nil {
		return nil, err
	}
	if !now.Before(r.Expires) {
		return r, fmt.Errorf("%w: release %d, on %s", ErrExpired, r.Counter, r.Expires.Format(time.RFC3339))
	}
	return r, nil
}

// ParseReleaseKey parses a public key as minisign writes it, with or without its comment line.
func ParseReleaseKey(s string) (minisign.PublicKey, error) {
	var key minisign.PublicKey
	if err := key.UnmarshalText([]byte(strings.TrimSpace(s))); err != nil {
		return key, fmt.Errorf("release key %q: %w", s, err)
	}
	return key, nil
}
