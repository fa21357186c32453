package inbox

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"sheaf/archive"
	"sheaf/internal/wire"
)

// Refusal says what is permanently wrong with a batch. Sending the same bytes again will not help.
type Refusal struct {
	Reason wire.Reason
	Detail string
}

func (r *Refusal) Error() string { return string(r.Reason) + ": " + r.Detail }

// OneHost refuses one host of a batch, for example because it inflates to too much. The batch's
// other hosts can be accepted.
type OneHost struct{ *Refusal }

func (e *OneHost) Unwrap() error { return e.Refusal }

// manifestEntry is the name of the manifest's copy inside a batch.
const manifestEntry = "_batch/manifest.json"

// RefuseManifest returns a refusal that names the manifest's copy as the place of the fault.
func RefuseManifest(m *wire.Manifest, reason wire.Reason, why string) *Refusal {
	at := int64(0)
	if len(m.Hosts) > 0 {
		last := m.Hosts[len(m.Hosts)-1]
		at = last.Offset + last.Length
	}
	return refuseManifestAt(at, reason, why)
}

func refuseManifestAt(at int64, reason wire.Reason, why string) *Refusal {
	return &Refusal{reason, fmt.Sprintf("offset %d (%s): %s", at, manifestEntry, why)}
}

// sameManifest compares the manifest's copy inside the batch, at an offset, with the manifest that
// came with the batch. Of an inferred manifest it compares only the hosts, because the other fields
// come from the copy.
func sameManifest(tail []byte, m *wire.Manifest, at int64) error {
	var inner wire.Manifest
	if err := json.Unmarshal(tail, &inner); err != nil {
		return refuseManifestAt(at, wire.ReasonCorruptMember, err.Error())
	}
	if m.Inferred {
		inner, m = wire.Manifest{Hosts: slices.Concat(inner.Hosts)}, &wire.Manifest{Hosts: slices.Concat(m.Hosts)}
	}
	have, err := innerOf(&inner)
	if err != nil {
		return err
	}
	want, err := innerOf(m)
	if err != nil {
		return err
	}
	if !bytes.Equal(have, want) {
		return refuseManifestAt(at, wire.ReasonSHAMismatch, "the manifest inside the batch is not the one that came with it")
	}
	return nil
}

// innerOf returns the manifest as the copy inside the batch has it: without size and digest.
func innerOf(m *wire.Manifest) ([]byte, error) {
	inner := *m
	inner.Size, inner.SHA256 = 0, ""
	return json.Marshal(inner)
}

// refusalOf turns a format error of the verifier into a refusal. at and part say where in the batch
// the verified part begins. It returns other errors unchanged.
func refusalOf(err error, at int64, part string) error {
	var fault *archive.FormatError
	if !errors.As(err, &fault) {
		return err
	}
	placed := *fault
	placed.Offset += at
	placed.Entry = cmp.Or(placed.Entry, part)
	refusal := &Refusal{fault.Code, placed.Error()}
	if fault.Excess {
		return &OneHost{refusal}
	}
	return refusal
}
