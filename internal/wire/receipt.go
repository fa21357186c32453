package wire

import (
	"crypto/ed25519"
	"time"
)

// State is the progress of a batch from the robot to the readers. The states correspond to the four
// buffers of the 1999 distributor (paper 001, section 4.3.2).
type State string

const (
	StateReceived    State = "received"    // complete and durable, with an accepted manifest
	StatePreSplit    State = "pre-split"   // being verified and split
	StatePostSplit   State = "post-split"  // every host's segment is stored; waiting for the publish window
	StatePublished   State = "published"   // readers can see it; the robot may delete its copy
	StateQuarantined State = "quarantined" // kept as a whole, with a reason
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
	ReasonForeign         Reason = "foreign_format" // the file came without a manifest and is not in the format of batches

	// ReasonTooLarge appears in no receipt. It is the service's refusal of an upload, before the
	// first byte, if it could never store the batch.
	ReasonTooLarge Reason = "too_large"
)

// QuarantineReasons returns the reasons that a batch in the quarantine can have.
func QuarantineReasons() []Reason {
	return []Reason{ReasonSHAMismatch, ReasonTruncated, ReasonCorruptMember, ReasonHostNotAssigned, ReasonPathEscape, ReasonLinkEntry,
		ReasonBombRatio, ReasonIDReuse, ReasonBadSignature, ReasonClock, ReasonForeign}
}

// Receipt tells a robot the progress of a batch. The service signs it with its Ed25519 key, which
// the robot got when it joined. A robot deletes its copy only after a receipt in StatePublished.
type Receipt struct {
	Batch   BatchID   `json:"batch"`
	SHA256  string    `json:"sha256"` // of the batch file
	State   State     `json:"state"`
	Reason  Reason    `json:"reason,omitempty"`  // quarantined only
	Detail  string    `json:"detail,omitempty"`  // where and what is wrong; for a published batch, the hosts that were left out, and whether its times are wrong
	Edition string    `json:"edition,omitempty"` // published only
	Version int64     `json:"version,omitempty"` // published only: catalog version
	At      time.Time `json:"at"`                // when the batch entered the state

	Inferred bool `json:"inferred,omitempty"` // the batch came without a manifest
}

// Sign returns the receipt in the signed form that OpenReceipt reads.
func (r *Receipt) Sign(key ed25519.PrivateKey) ([]byte, error) { return seal(r, key) }

// OpenReceipt checks that one of the keys signed the receipt, and parses it. If none did, the error
// is ErrSignature.
func OpenReceipt(data []byte, keys ...ed25519.PublicKey) (*Receipt, error) {
	r := new(Receipt)
	return r, open(data, r, keys...)
}
