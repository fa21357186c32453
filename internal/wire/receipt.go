package wire

import (
	"crypto/ed25519"
	"time"
)

// State is how far a batch has come on its way from a robot to the readers:
// the four buffers of the 1999 distributor (paper 001, section 4.3.2), kept as states.
type State string

const (
	StateReceived    State = "received"    // whole, durable, manifest accepted
	StatePreSplit    State = "pre-split"   // taken for verification and splitting
	StatePostSplit   State = "post-split"  // every host's segment is stored; waits for the publish window
	StatePublished   State = "published"   // readers see it; the robot may drop its copy
	StateQuarantined State = "quarantined" // kept whole, with a reason
)

// Reason says why a batch was quarantined.
type Reason string

const (
	ReasonSHAMismatch     Reason = "sha_mismatch"
	ReasonTruncated       Reason = "truncated"
	ReasonCorruptMember   Reason = "corrupt_member"
	ReasonHostNotAssigned Reason = "host_not_assigned"
	ReasonPathEscape      Reason = "path_escape"
	ReasonLinkEntry       Reason = "link_entry"
	ReasonBombRatio       Reason = "bomb_ratio"
	ReasonIDReuse         Reason = "id_reuse"
	ReasonBadSignature    Reason = "bad_signature"
	ReasonClock           Reason = "clock"
	ReasonForeign         Reason = "foreign_format" // came without a manifest, and is no batch of this format

	// ReasonTooLarge stands in no receipt: an upload that the service could never
	// store is refused with it before its first byte.
	ReasonTooLarge Reason = "too_large"
)

// Receipt tells a robot how far its batch has come. Signed by the service's
// Ed25519 key, which the robot learned when it joined. A robot deletes its copy
// only on a receipt that says published.
type Receipt struct {
	Batch   BatchID   `json:"batch"`
	SHA256  string    `json:"sha256"` // of the batch file
	State   State     `json:"state"`
	Reason  Reason    `json:"reason,omitempty"`  // quarantined only
	Detail  string    `json:"detail,omitempty"`  // where and what; of a published batch, which hosts were left out
	Edition string    `json:"edition,omitempty"` // published only
	Version int64     `json:"version,omitempty"` // published only: catalog version
	At      time.Time `json:"at"`                // when the batch entered the state

	Inferred bool `json:"inferred,omitempty"` // the batch came without a manifest
}

// Sign gives the signed receipt.
func (r *Receipt) Sign(key ed25519.PrivateKey) ([]byte, error) { return seal(r, key) }

// OpenReceipt checks the signature and reads the receipt.
func OpenReceipt(data []byte, key ed25519.PublicKey) (*Receipt, error) {
	if len(key) == 0 {
		return nil, ErrSignature
	}
	r := new(Receipt)
	return r, open(data, key, r)
}
