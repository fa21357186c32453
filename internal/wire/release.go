package wire

import (
	"crypto/ed25519"
	"fmt"
)

// Paths by which programs reach robots. The public ones need no credentials: what
// is fetched there is verified by digest and signature.
const (
	PathReport    = "/v1/robots/{robot}/report" // POST: ReportRequest
	PathInstaller = "/install.sh"               // GET
	PathReleases  = "/releases"                 // GET /releases/{counter}/RELEASE, RELEASE.minisig, robotd-PLATFORM
)

// ReportRequest is what a robot says of its program when it starts and at every poll.
type ReportRequest struct {
	Version  string          `json:"version"`
	Platform string          `json:"platform"`         // GOOS-GOARCH
	Counter  int64           `json:"counter"`          // of the release at work; 0: none, such as one built by hand
	Seen     int64           `json:"seen"`             // the highest counter that it has verified
	Failed   []FailedRelease `json:"failed,omitempty"` // that it has put back
	NoKey    bool            `json:"no_key,omitempty"` // it joined before there was a release key, and needs it
}

// FailedRelease is one that a robot tried and put back.
type FailedRelease struct {
	Counter int64  `json:"counter"`
	Why     string `json:"why"`
}

// ReportAnswer answers a ReportRequest where there is something for the robot; else the answer is 204.
type ReportAnswer struct {
	Offer // its Release is empty where there is none for the robot

	Key *SignedReleaseKey `json:"key,omitempty"` // to a report with NoKey, once there is a key
}

// Offer is a release that a robot may take.
type Offer struct {
	Release   string `json:"release"`   // text; see package internal/release
	Signature string `json:"signature"` // minisign's, over it
}

// SignedReleaseKey is the minisign key that releases are signed with, for one robot. The service signs
// it with the key that the robot learnt when it joined, which makes it as good as one learnt then.
type SignedReleaseKey struct {
	Key       string `json:"key"`
	Signature []byte `json:"signature"` // Ed25519, over "sheaf release key of robot <name>: <key>"
}

// SignReleaseKey signs the release key for a robot.
func SignReleaseKey(robot, key string, by ed25519.PrivateKey) *SignedReleaseKey {
	return &SignedReleaseKey{key, ed25519.Sign(by, releaseKeyText(robot, key))}
}

// Verify reports whether the service whose key is by signed the release key for the robot.
func (k *SignedReleaseKey) Verify(robot string, by ed25519.PublicKey) bool {
	return ed25519.Verify(by, releaseKeyText(robot, k.Key), k.Signature)
}

func releaseKeyText(robot, key string) []byte {
	return fmt.Appendf(nil, "sheaf release key of robot %s: %s", robot, key)
}
