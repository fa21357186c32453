package library

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"slices"
	"sort"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/store"
)

// Volume is a file, in two forms, in which archives of many hosts follow one another: what the
// editions of a day brought, or the latest version of every page. All of its bytes are stored
// ranges or those of the hosts' own files:
//
//   - .warc.gz: the hosts' .warc.gz, whole, each with its warcinfo record;
//   - .tar.gz of what editions brought: the pages' files alone (see archive.Files), so no bytes of
//     pages that were found unchanged;
//   - .tar.gz of the latest versions: the hosts' .members.tar.gz, all but the last without an end.
//
// Both are gzip files of many members, as gzip (RFC 1952, section 2.2) and tar readers expect them.
type Volume struct {
	modified time.Time
	from     *Library
	parts    []volumePart
	files    [len(volumeForms)]struct {
		size int64
		sum  hash.Hash // of everything that the bytes depend on
	}
}

// volumePart is one host's archive in a volume.
type volumePart struct {
	archive Archive
	ends    [len(volumeForms)]int64 // where the host's bytes end, by form
	sha256  string                  // of the host's .warc.gz; "" if it is not known
}

// volumeForms are the forms of volumes. Kind is the kind of the hosts' files; see volumeForm.
var volumeForms = [...]Form{
	{Suffix: ".tar.gz", Kind: archive.Files, Type: "application/gzip"},
	{Suffix: formWARC, Kind: archive.WARC, Type: "application/gzip"},
}

// volumeForm returns volumeForms[i] with the kind of the archive's file in a volume.
func (a Archive) volumeForm(i int) Form {
	f := volumeForms[i]
	if i == volumeTar && a.latest {
		f.Kind = archive.Members
	}
	return f
}

// Indexes of volumeForms.
const volumeTar, volumeWARC = 0, 1

// volumeList is the suffix of the list of a volume's hosts.
const volumeList = ".jsonl"

// tarEnd is the end of a tar.gz that is not one whole segment stored as it is.
var tarEnd = archive.EndMember(0, 0)

// NewVolume returns an empty volume. modified is the time of its files.
func NewVolume(from *Library, modified time.Time) *Volume {
	v := &Volume{modified: modified, from: from}
	for i := range v.files {
		v.files[i].sum = sha256.New()
	}
	return v
}

// CutVolume divides the name of a volume's file into the volume's name and the file's suffix.
func CutVolume(name string) (volume, suffix string, ok bool) {
	for _, suffix := range volumeSuffixes() {
		if n := len(name) - len(suffix); n > 0 && name[n:] == suffix {
			return name[:n], suffix, true
		}
	}
	return "", "", false
}

func volumeSuffixes() []string {
	return []string{volumeForms[0].Suffix, volumeForms[1].Suffix, volumeList}
}

// Measure is what a volume needs to know of a host's archive. For the latest versions it is found
// by reading the indexes of all of the host's segments. It also holds for another account that sees
// the segments in Needed and none newer than Last, if the same is withheld from it.
type Measure struct {
	Key    string  `json:"key"`              // of the host, and of what is withheld of it
	Last   int64   `json:"last,omitempty"`   // sequence number of the newest segment
	Needed []int64 `json:"needed,omitempty"` // sequence numbers of the segments on which the latest versions depend

	Sizes [2]int64  `json:"sizes"` // of the files, by form
	ETags [2]string `json:"etags"`

	sha256 string // of the host's .warc.gz; "" if it is not known
}

// Measure measures an archive, unless known has its measure under its key. It reduces an archive of
// latest versions to the segments that it needs, so that the archive stays the same when other
// segments expire.
func (a Archive) Measure(ctx context.Context, known map[string]Measure) (Archive, Measure, error) {
	m := Measure{}
	if a.latest {
		sum := sha256.Sum256(fmt.Appendf(nil, "%q %s", a.host.Name, a.host.Withheld()))
		m.Key, m.Last = hex.EncodeToString(sum[:16]), a.segments[len(a.segments)-1].Seq
		if found, ok := known[m.Key]; ok && m.Last <= found.Last {
			if of, ok := a.only(found.Needed); ok {
				return of, found, nil
			}
		}
		needed, err := a.needed(ctx)
		if err != nil {
			return a, m, err
		}
		m.Needed = needed
		a, _ = a.only(needed)
	}
	for i := range volumeForms {
		e, err := a.computed(ctx, a.volumeForm(i))
		if err != nil {
			return a, m, err
		}
		m.Sizes[i], m.ETags[i] = e.Size, e.ETag
		if i == volumeWARC {
			m.sha256 = e.SHA256
		}
	}
	return a, m, nil
}

// Add adds a host's archive, and its measure. Hosts must be added in the order of their keys.
func (v *Volume) Add(a Archive, m Measure) {
	p := volumePart{archive: a, sha256: m.sha256}
	for i := range volumeForms {
		file := &v.files[i]
		fmt.Fprintf(file.sum, "%s %s %d\n", a.host.Name, m.ETags[i], m.Sizes[i])
		file.size += m.Sizes[i]
		if i == volumeTar {
			file.size -= int64(len(tarEnd))
		}
		p.ends[i] = file.size
	}
	v.parts = append(v.parts, p)
}

// Hosts returns the volume's hosts, in the order of their keys.
func (v *Volume) Hosts() []*Host {
	hosts := make([]*Host, len(v.parts))
	for i, p := range v.parts {
		hosts[i] = p.archive.host
	}
	return hosts
}

// Empty reports whether the volume has no hosts.
func (v *Volume) Empty() bool { return len(v.parts) == 0 }

// Held returns about what the volume takes in memory, in bytes.
func (v *Volume) Held() int64 { return 1024 + int64(len(v.parts))*2048 }

// Files calls emit with each file of the volume. name is the volume's, such as "00001".
func (v *Volume) Files(ctx context.Context, name string, emit func(*Entry) error) error {
	for _, suffix := range volumeSuffixes() {
		e, err := v.File(ctx, name, suffix)
		if err == nil {
			err = emit(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// File returns the volume's file with a suffix that CutVolume knows.
func (v *Volume) File(ctx context.Context, name, suffix string) (*Entry, error) {
	for i, f := range volumeForms {
		if f.Suffix != suffix {
			continue
		}
		file := v.files[i]
		size, end := file.size, []byte(nil)
		if i == volumeTar {
			end = tarEnd
		}
		return &Entry{
			Node: Node{
				Name: name + suffix, Size: size + int64(len(end)), Modified: Seconds(v.modified), Type: f.Type,
				ETag: fmt.Sprintf(`"volume1-%s"`, v.digest(i)),
			},
			Open: func(context.Context) (Ranges, error) { return v.ranges(i, end), nil },
		}, nil
	}
	d := Document{
		Name: name + volumeList, Type: "application/x-ndjson", Modified: v.modified,
		Key: "volume " + v.digest(volumeTar) + v.digest(volumeWARC), Write: v.writeList, Spools: v.from.Spools,
	}
	return d.Entry(ctx, v.from.Memo)
}

// Digest stands for all bytes of the volume, as the account sees it.
func (v *Volume) Digest() string {
	sum := sha256.Sum256([]byte(v.digest(volumeTar) + v.digest(volumeWARC)))
	return hex.EncodeToString(sum[:16])
}

// Modified returns the time of the volume's files.
func (v *Volume) Modified() time.Time { return v.modified }

// Places returns a function that tells where a host's record lies in a day's volume, by the
// segment's sequence number and the cell's number in its index. The function is nil if the volume
// does not have the host with this key. A record without a file has no bytes in the tar.
func (v *Volume) Places(ctx context.Context, key string) (func(seq int64, cell int) (tar, warc Stretch, ok bool), error) {
	i := sort.Search(len(v.parts), func(i int) bool { return catalog.Key(v.parts[i].archive.host.Name) >= key })
	if i == len(v.parts) || catalog.Key(v.parts[i].archive.host.Name) != key {
		return nil, nil
	}
	a := v.parts[i].archive
	parts, segments, err := a.parts(ctx)
	if err != nil {
		return nil, err
	}
	var views [len(volumeForms)]*archive.View
	var from [len(volumeForms)]int64
	for form := range volumeForms {
		if views[form], err = a.assemble(ctx, a.volumeForm(form).Kind); err != nil {
			return nil, err
		}
		if i > 0 {
			from[form] = v.parts[i-1].ends[form]
		}
	}
	var shown [len(volumeForms)][][]int // the cells that each view has of each part
	for _, p := range parts {
		all := slices.Collect(chosen(p))
		shown[volumeWARC] = append(shown[volumeWARC], all)
		shown[volumeTar] = append(shown[volumeTar], slices.DeleteFunc(slices.Clone(all), func(c int) bool { return !p.Index.Cells[c].Kind.HasFile() }))
	}
	find := func(form, part, cell int) (at Stretch, ok bool) {
		nth, ok := slices.BinarySearch(shown[form][part], cell)
		if ok {
			at.Offset, at.Length, ok = views[form].Find(part, nth)
			at.Offset += from[form]
		}
		return at, ok
	}
	return func(seq int64, cell int) (tar, warc Stretch, ok bool) {
		part, ok := slices.BinarySearchFunc(segments, seq, func(s catalog.SegmentEntry, seq int64) int { return cmp.Compare(s.Seq, seq) })
		if ok {
			tar, _ = find(volumeTar, part, cell)
			warc, ok = find(volumeWARC, part, cell)
		}
		return tar, warc, ok
	}, nil
}

// EachLink calls fn with every link of the volume's records, with the record and its segment.
func (v *Volume) EachLink(ctx context.Context, fn func(catalog.SegmentEntry, *archive.Cell, archive.Link) error) (err error) {
	for i := 0; i < len(v.parts) && err == nil; i++ {
		err = v.parts[i].archive.eachLink(ctx, fn)
	}
	return err
}

func (v *Volume) digest(form int) string { return hex.EncodeToString(v.files[form].sum.Sum(nil)[:16]) }

// ranges returns the bytes of a form. A host's file is opened when its bytes are read.
func (v *Volume) ranges(form int, end []byte) *Joined {
	_, local := store.AsLocal(v.from.Segments.Store)
	place := func(i int) int64 {
		if i == len(v.parts) {
			return v.files[form].size + int64(len(end))
		}
		return v.parts[i].ends[form]
	}
	return &Joined{Local: local, Parts: len(v.parts) + 1, End: place, Open: func(ctx context.Context, i int, length int64) (Ranges, error) {
		if i == len(v.parts) {
			return Bytes(end), nil
		}
		a := v.parts[i].archive
		whole, err := a.content(ctx, a.volumeForm(form))
		if err != nil {
			return nil, err
		}
		if form == volumeTar {
			length += int64(len(tarEnd))
		}
		if whole.Size() != length {
			err = fmt.Errorf("volume: %s has %d bytes, not %d", a.host.Name, whole.Size(), length)
		}
		return whole, err
	}}
}

// VolumeLine is one line of the list of a volume's hosts.
type VolumeLine struct {
	Host string  `json:"host"`
	Path string  `json:"path"` // of the host in the tree, such as "jp/ac/waseda/www"
	Tar  Stretch `json:"tar"`
	WARC Stretch `json:"warc"`
}

// Stretch is where the bytes of a host or of a record are in a volume's file.
type Stretch struct {
	Offset int64  `json:"offset"`
	Length int64  `json:"length"`
	SHA256 string `json:"sha256,omitempty"` // of these bytes, if it is known
}

func (v *Volume) writeList(_ context.Context, w io.Writer) error {
	out := json.NewEncoder(w)
	var from [len(volumeForms)]int64
	for _, p := range v.parts {
		line := VolumeLine{Host: p.archive.host.Name, Path: p.archive.host.Place}
		line.Tar = Stretch{Offset: from[volumeTar], Length: p.ends[volumeTar] - from[volumeTar]}
		line.WARC = Stretch{Offset: from[volumeWARC], Length: p.ends[volumeWARC] - from[volumeWARC], SHA256: p.sha256}
		if err := out.Encode(line); err != nil {
			return err
		}
		from = p.ends
	}
	return nil
}
