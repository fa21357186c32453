package wire

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
}

// FailedRelease is one that a robot tried and put back.
type FailedRelease struct {
	Counter int64  `json:"counter"`
	Why     string `json:"why"`
}

// Offer answers a ReportRequest where there is a release for the robot; else the answer is 204.
type Offer struct {
	Release   string `json:"release"`   // text; see package internal/release
	Signature string `json:"signature"` // minisign's, over it
}
