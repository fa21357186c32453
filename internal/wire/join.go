package wire

// JoinRequest is the body of POST /v1/robots/join, by which a robot exchanges a
// one-time token for credentials and registers the key it signs manifests with.
type JoinRequest struct {
	Token     string `json:"token"`
	Version   string `json:"version"`
	PublicKey []byte `json:"public_key"` // Ed25519, 32 bytes, base64 in JSON
}

// JoinResponse answers it. Robot and Secret are the HTTP Basic (and FTP)
// credentials from now on.
type JoinResponse struct {
	Robot     string `json:"robot"`
	Secret    string `json:"secret"`
	ServerKey []byte `json:"server_key"`    // Ed25519, 32 bytes: signs receipts
	FTP       string `json:"ftp,omitempty"` // host:port of the FTP drop, where there is one

	// ReleaseKey is the minisign key that the operators sign the robot's program
	// with; empty: there is none yet. The robot trusts it from then on, and no other.
	ReleaseKey string `json:"release_key,omitempty"`
}

// Paths of the protocol between robots and the service. {robot} stands for the
// robot's name, {batch} for a batch ID.
const (
	PathJoin        = "/v1/robots/join"
	PathList        = "/v1/robots/{robot}/list"        // P1, GET
	PathRecord      = "/v1/robots/{robot}/record"      // P2, POST
	PathSubmitLog   = "/v1/robots/{robot}/submitlog"   // P3, POST
	PathIsRestart   = "/v1/robots/{robot}/isrestart"   // P4, GET
	PathSubscribe   = "/v1/robots/{robot}/subscribe"   // P5, POST
	PathUnsubscribe = "/v1/robots/{robot}/unsubscribe" // P5, POST

	PathUploads  = "/v1/batches/uploads/"         // tus 1.0; metadata key "batch"
	PathManifest = "/v1/batches/{batch}/manifest" // PUT, last: the batch is complete
	PathReceipt  = "/v1/batches/{batch}/receipt"  // GET: signed receipt

	// HeaderGeneration carries, on a P1 answer, the assignment's generation.
	HeaderGeneration = "Sheaf-Generation"
)

// Problem is an error's body on every HTTP path (RFC 9457, application/problem+json).
type Problem struct {
	Type   string `json:"type,omitempty"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"` // where and what to do
	Reason string `json:"reason,omitempty"` // a stable code, such as "window_closed" or a quarantine Reason
	Next   string `json:"next,omitempty"`   // RFC 3339: when it may be tried again
}
