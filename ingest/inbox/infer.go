package inbox

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"io"

	"sheaf/archive"
	"sheaf/internal/wire"
)

// InferManifest verifies a batch that came without a manifest and returns the manifest that it
// should have come with. Hosts, ranges, counts and digests are those found in the file. The copy of
// the manifest inside must agree with them, and gives the other fields. If the copy does not name
// this robot, the batch gets an ID made from its content, so the same file is the same batch again.
// The caller must set the generation if it is missing, and check the manifest.
//
// If the batch is wrong, the error is a *Refusal; its reason is ReasonTruncated if more bytes could
// help.
func InferManifest(r io.Reader, robot string, limits Limits) (*wire.Manifest, error) {
	in := &input{r: r, hash: sha256.New()}
	var hosts []wire.Host
	end := int64(0)
	opt := archive.VerifyOptions{Grace: limits.Grace, MaxBody: limits.MaxBody}
	inner, err := archive.VerifyBatch(in, opt, func(s *archive.Summary) error {
		hosts = append(hosts, wire.Host{
			Name: s.Host, Offset: end, Length: s.RangeSize, SHA256: s.RangeSHA256,
			Records: s.Records, Revisits: s.Revisits, First: s.First, Last: s.Last,
		})
		end += s.RangeSize
		return nil
	})
	switch {
	case in.err != nil:
		return nil, in.err
	case err != nil:
		return nil, refusalOf(err, 0, "batch.tar.gz")
	}
	m := new(wire.Manifest)
	if err := json.Unmarshal(inner, m); err != nil {
		return nil, refuseManifestAt(end, wire.ReasonCorruptMember, err.Error())
	}
	if err := sameManifest(inner, &wire.Manifest{Hosts: hosts, Inferred: true}, end); err != nil {
		return nil, err
	}
	m.Hosts, m.Inferred, m.Size, m.SHA256, m.Collection = hosts, true, in.n, in.sha256(), wire.Collection{}
	if m.Robot != robot || m.Batch.Robot() != robot {
		const most = 1_000_000_000 // a batch ID's number has at most nine digits
		digest := binary.BigEndian.Uint64(in.hash.Sum(nil))
		m.Robot, m.Batch = robot, wire.NewBatchID(robot, m.Created, int64(digest%most))
	}
	return m, nil
}
