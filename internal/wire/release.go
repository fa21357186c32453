package wire

import (
	"crypto/ed25519"
	"fmt"
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
