package batch

import (
	"os"

	"sheaf/internal/wire"
)

// maxResent is how often a batch that arrived damaged is sent again.
const maxResent = 2

// advice returns what the robot's operator should do about a batch that was put aside.
func advice(reason wire.Reason) string {
	switch reason {
	case wire.ReasonSHAMismatch:
		return "Bytes were changed on the way or on a disk, again and again: look at the line, at proxies on it, and at both disks."
	case wire.ReasonTruncated, wire.ReasonCorruptMember, wire.ReasonPathEscape, wire.ReasonLinkEntry, wire.ReasonBombRatio:
		return "The batch itself is wrong: look at this robot's disk, and report it with the batch. The pages are fetched again in the next cycle."
	case wire.ReasonHostNotAssigned:
		return "The service has the batch and its operator can release it; then this copy may be deleted."
	case wire.ReasonClock:
		return "Set this robot's clock (NTP). The service has the batch and its operator can release it; then this copy may be deleted."
	case wire.ReasonTooLarge:
		return "The service's disks can never take a batch of this size: make smaller ones (batch.size), or ask its operator for room. The pages are fetched again in the next cycle."
	case wire.ReasonIDReuse:
		return "The service has another batch under this ID: is the data folder a copy, or restored from a backup? One folder, one robot; join with a new token for the other."
	case wire.ReasonBadSignature:
		return "This robot signs with another key than it joined with (robot.key): restore the key, or join again with a new token."
	}
	return "This robot does not know the reason: is there a newer robotd?"
}

// intact reports whether the robot's copy of the batch still has its digest.
func intact(b Spooled) (bool, error) {
	f, err := os.Open(b.Path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	digest, n, err := wire.DigestOf(f)
	return n == b.Size && digest == b.SHA256, err
}
