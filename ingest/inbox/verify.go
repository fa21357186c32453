package inbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"sheaf/archive"
	"sheaf/internal/wire"
)

// Refusal is what is permanently wrong with a batch: sending the same bytes again will not help.
type Refusal struct {
	Reason wire.Reason
	Detail string
}

func (r *Refusal) Error() string { return string(r.Reason) + ": " + r.Detail }

// OneHost is the refusal of one host, such as for its amount alone. The rest of its batch can be
// taken.
type OneHost struct{ *Refusal }

func (e *OneHost) Unwrap() error { return e.Refusal }

// manifestEntry is the name of the manifest's copy inside a batch.
const manifestEntry = "_batch/manifest.json"

// RefuseManifest returns the refusal of a batch because of the copy of its manifest.
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

// sameManifest compares the copy inside the batch, which begins at an offset, with the manifest
// that came with the batch. Of an inferred manifest only the hosts are compared: the rest is the
// copy's.
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

// innerOf returns the manifest as the copy inside the batch has it.
func innerOf(m *wire.Manifest) ([]byte, error) {
	inner := *m
	inner.Size, inner.SHA256 = 0, ""
	return json.Marshal(inner)
}

// refusalOf turns a fault of the format that the verifier has found into a refusal. The offset and
// the entry are where in the batch the verified part begins. Other errors are returned as they are.
func refusalOf(err error, at int64, part string) error {
	var fault *archive.FormatError
	if !errors.As(err, &fault) {
		return err
	}
	placed := *fault
	placed.Offset += at
	if placed.Entry == "" {
		placed.Entry = part
	}
	refusal := &Refusal{fault.Code, placed.Error()}
	if fault.Excess {
		return &OneHost{refusal}
	}
	return refusal
}
