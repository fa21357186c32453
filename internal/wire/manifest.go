package wire

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// ManifestFormat is the format number that this version writes and accepts.
const ManifestFormat = 1

// MaxManifest is the size limit of a signed manifest, in bytes. It is enough for about 100,000
// hosts in one batch.
const MaxManifest = 64 << 20

// BatchID is the name of a batch: "<robot>-<yyyymmddThhmmssZ>-<n>", in lower-case letters, digits
// and hyphens, except for the T and Z of the time. It is safe as a file and object name.
type BatchID string

var batchID = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}-[0-9]{8}T[0-9]{6}Z-[0-9]{1,9}$`)

// NewBatchID returns the ID of a robot's n-th batch, begun at time t.
func NewBatchID(robot string, t time.Time, n int64) BatchID {
	return BatchID(fmt.Sprintf("%s-%s-%d", robot, t.UTC().Format("20060102T150405Z"), n))
}

// Valid reports whether the ID has the form of NewBatchID.
func (id BatchID) Valid() bool { return batchID.MatchString(string(id)) }

// Robot returns the name of the batch's robot, or "" if the ID is not valid.
func (id BatchID) Robot() string {
	if !id.Valid() {
		return ""
	}
	name := string(id)
	for range 2 {
		name = name[:strings.LastIndexByte(name, '-')]
	}
	return name
}

// ImportRobot is the robot of the batches that operators import. No robot can join under this name.
const ImportRobot = "import"

var robotName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// ValidRobotName reports whether name is a valid name of a robot: a DNS label.
func ValidRobotName(name string) bool { return robotName.MatchString(name) }

// Manifest describes one batch. A batch is a tar.gz file: the hosts' segments one after another,
// each without its end member, then a copy of this manifest (without Size and SHA256) and one end
// member. See archive/FORMAT.md.
type Manifest struct {
	Format     int       `json:"format"`
	Batch      BatchID   `json:"batch"`
	Robot      string    `json:"robot"`
	Version    string    `json:"version"`          // of the robot's program
	Generation int64     `json:"generation"`       // of the assignment under which the batch was collected
	Created    time.Time `json:"created"`          // when the batch was sealed, by the robot's clock
	Previous   string    `json:"previous"`         // SHA-256 of the robot's previous signed manifest; empty for its first
	Size       int64     `json:"size,omitempty"`   // bytes of the batch file; absent in the copy inside
	SHA256     string    `json:"sha256,omitempty"` // of the batch file; absent in the copy inside
	Hosts      []Host    `json:"hosts"`

	// Coverage also has hosts without a page in the batch.
	Coverage []Coverage `json:"coverage,omitempty"`
	Clock    *Clock     `json:"clock,omitempty"` // nil if not measured

	Signed bool `json:"signed,omitempty"` // the robot signed its requests (see botauth)

	// Express marks a small batch with a change for which somebody waits. It may be published at
	// any time.
	Express bool `json:"express,omitempty"`

	// Inferred says that the batch came without a manifest: the service has read the whole batch
	// and made this one. It is not signed.
	Inferred bool `json:"inferred,omitempty"`

	// Collection is the collection under which an operator has imported the batch. Only an inferred
	// manifest has it.
	Collection Collection `json:"collection,omitzero"`
}

// Host describes the cells of one host within a batch, including the index cell.
type Host struct {
	Name     string    `json:"name"` // authority without default port, lower case
	Offset   int64     `json:"offset"`
	Length   int64     `json:"length"`
	SHA256   string    `json:"sha256"` // of the host's bytes
	Records  int64     `json:"records"`
	Revisits int64     `json:"revisits"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
}

// Check returns an error for the first fault in the manifest's fields. It checks the format, the
// names, the digests, the coverage, and that the hosts' parts follow one another within Size.
func (m *Manifest) Check() error {
	switch {
	case m.Format != ManifestFormat:
		return fmt.Errorf("manifest: format %d, want %d", m.Format, ManifestFormat)
	case !m.Batch.Valid():
		return fmt.Errorf("manifest: batch ID %q is not <robot>-<yyyymmddThhmmssZ>-<n>", m.Batch)
	case !ValidRobotName(m.Robot):
		return fmt.Errorf("manifest: robot name %q is not a DNS label", m.Robot)
	case m.Size <= 0:
		return fmt.Errorf("manifest: size %d of the batch is not positive", m.Size)
	case !ValidDigest(m.SHA256):
		return fmt.Errorf("manifest: sha256 %q is not 64 lower-case hexadecimal digits", m.SHA256)
	case m.Previous != "" && !ValidDigest(m.Previous):
		return fmt.Errorf("manifest: previous %q is not 64 lower-case hexadecimal digits", m.Previous)
	case m.Created.IsZero():
		return errors.New("manifest: created is missing")
	case m.Collection != Collection{} && !m.Inferred:
		return fmt.Errorf("manifest: collection %.100q: only an import has one", m.Collection.Name)
	}
	if err := m.Collection.Check(); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	end := int64(0)
	seen := make(map[string]bool, len(m.Hosts))
	for i, h := range m.Hosts {
		switch {
		case h.Name == "" || seen[h.Name]:
			return fmt.Errorf("manifest: hosts[%d]: name %q is empty or given twice", i, h.Name)
		case h.Offset != end:
			return fmt.Errorf("manifest: hosts[%d] %s: offset %d, want %d (hosts lie one after another)", i, h.Name, h.Offset, end)
		case h.Length <= 0 || h.Length > m.Size-end:
			return fmt.Errorf("manifest: hosts[%d] %s: length %d does not fit the batch's %d bytes", i, h.Name, h.Length, m.Size)
		case !ValidDigest(h.SHA256):
			return fmt.Errorf("manifest: hosts[%d] %s: sha256 %q is not 64 lower-case hexadecimal digits", i, h.Name, h.SHA256)
		}
		seen[h.Name] = true
		end += h.Length
	}
	for i := range m.Coverage {
		if err := m.Coverage[i].check(); err != nil {
			return fmt.Errorf("manifest: coverage[%d]: %w", i, err)
		}
	}
	return nil
}

// ValidDigest reports whether s is a SHA-256 in lower-case hexadecimal.
func ValidDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && s == strings.ToLower(s)
}

// signed is the envelope of manifests and receipts. The signature covers the bytes of Body, so it
// does not depend on the formatting of JSON.
type signed struct {
	Body      string `json:"signed"` // JSON, encoded as a string
	Signature string `json:"ed25519"`
}

func seal(v any, key ed25519.PrivateKey) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	sig := base64.StdEncoding.EncodeToString(ed25519.Sign(key, body))
	return json.Marshal(signed{Body: string(body), Signature: sig})
}

// ErrSignature says that a document's signature is not from an expected key.
var ErrSignature = errors.New("signature does not match the key")

// open parses a document that any of the keys has signed.
func open(data []byte, v any, keys ...ed25519.PublicKey) error {
	s, err := unseal(data)
	if err != nil {
		return err
	}
	sig, err := base64.StdEncoding.DecodeString(s.Signature)
	if err != nil || !slices.ContainsFunc(keys, func(key ed25519.PublicKey) bool {
		return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, []byte(s.Body), sig)
	}) {
		return ErrSignature
	}
	return json.Unmarshal([]byte(s.Body), v)
}

func unseal(data []byte) (s signed, err error) {
	if err := strict(data, &s); err != nil {
		return s, fmt.Errorf("signed envelope: %w", err)
	}
	return s, nil
}

func strict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return errors.New("data after the end")
	}
	return nil
}

// Sign returns the signed manifest: the bytes of "<batch>.manifest".
func (m *Manifest) Sign(key ed25519.PrivateKey) ([]byte, error) { return seal(m, key) }

// Unsigned returns an inferred manifest in the same form, without a signature.
func (m *Manifest) Unsigned() ([]byte, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return json.Marshal(signed{Body: string(body)})
}

// ManifestKey names the object in which a published batch's signed manifest is kept.
func ManifestKey(id BatchID) string { return "batches/" + string(id) + ".manifest" }

// OpenManifest checks the signature against key and then every field. It returns ErrSignature if
// the signature is not key's.
func OpenManifest(data []byte, key ed25519.PublicKey) (*Manifest, error) {
	m := new(Manifest)
	if err := open(data, m, key); err != nil {
		return nil, err
	}
	return m, m.Check()
}

// PeekManifest parses a signed manifest without checking its signature, so that the caller can look
// up the robot's key. Do not use the result for anything else.
func PeekManifest(data []byte) (*Manifest, error) {
	s, err := unseal(data)
	if err != nil {
		return nil, err
	}
	m := new(Manifest)
	if err := json.Unmarshal([]byte(s.Body), m); err != nil {
		return nil, err
	}
	return m, m.Check()
}

// Digest returns the lower-case hexadecimal SHA-256 of data.
func Digest(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// DigestOf is Digest for all that r has. It also returns the number of bytes.
func DigestOf(r io.Reader) (digest string, n int64, err error) {
	h := sha256.New()
	n, err = io.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil)), n, err
}

// Limits that hold for every robot and for the service.
const (
	// PageBytes is the default limit for a page's body, in bytes. The robot cuts longer bodies.
	PageBytes = 64 << 20
	// MaxBody is the longest body that the service accepts, in bytes. No setting may exceed it.
	MaxBody = 512 << 20
	// MaxRatio is the number of decoded bytes that each stored byte allows.
	MaxRatio = 200
	// Grace is how many more bytes may be decoded than MaxRatio allows. It is several times
	// PageBytes, so that a few pages of zeros are kept whole.
	Grace = 256 << 20
)

// ExpansionRoom returns how many more bytes may be decoded if a part's cells have these numbers of
// bytes, decoded and stored. It is negative if the rule of expansion is broken.
func ExpansionRoom(decoded, stored int64) int64 {
	return Expansion{MaxRatio, Grace}.Room(decoded, stored)
}

// Expansion is the rule of expansion with other numbers than MaxRatio and Grace.
type Expansion struct{ Ratio, Grace int64 }

// Room is ExpansionRoom with the numbers of e.
func (e Expansion) Room(decoded, stored int64) int64 {
	const most = 1 << 62 // below this the sum cannot overflow
	if stored > (most-e.Grace)/e.Ratio {
		return most - decoded
	}
	return e.Grace + e.Ratio*stored - decoded
}

// A foreign WARC file may have records that do not fit into a segment: requests, metadata,
// conversions, DNS, and truncated answers. They are stored beside the batch in one object, each as
// a gzip member as in WARC files. Records of a host that the batch brings are contiguous; all other
// records come first.

// ViewOthers is the name of the view in the catalog that describes an entry's part of the object at
// OthersKey.
const ViewOthers = "others"

// OthersKey returns the key of the object with a batch's records that do not fit into a segment.
func OthersKey(id BatchID) string { return "batches/" + string(id) + ".others.warc.gz" }

// OthersIndexKey returns the key of the index of the object at OthersKey. Each line of the index is
// the OtherRecords of one host.
func OthersIndexKey(id BatchID) string { return "batches/" + string(id) + ".others.json" }

// OtherRecords describes the records of one host in the object at OthersKey.
type OtherRecords struct {
	Host    string `json:"host"` // empty: records of no host that the batch brings
	Offset  int64  `json:"offset"`
	Size    int64  `json:"size"`
	Records int64  `json:"records"`
	SHA256  string `json:"sha256"` // of the records' bytes
}
