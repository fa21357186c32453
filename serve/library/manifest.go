package library

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
)

// The names of the texts in a host's directory.
const (
	Manifest = "MANIFEST"
	Sums     = "SHA256SUMS"
)

// ManifestLine is one line of a MANIFEST: a file, and where it comes from.
type ManifestLine struct {
	Path     string    `json:"path"` // from the MANIFEST's directory
	Host     string    `json:"host"`
	Edition  string    `json:"edition,omitempty"` // none for current, all and a day's volumes
	Size     int64     `json:"size"`
	SHA256   string    `json:"sha256,omitempty"` // none if it is not known, as for files of several segments
	ETag     string    `json:"etag"`
	Modified time.Time `json:"modified"`
	Segments []Segment `json:"segments,omitempty"` // of an edition's files
}

// DayLine is the first line of the MANIFEST of a day's volumes.
type DayLine struct {
	Day      string `json:"day"`
	Complete bool   `json:"complete"` // nothing that is published later will be of the day
}

// Segment is what one batch brought of a host.
type Segment struct {
	SHA256      string    `json:"sha256"` // of the stored segment, in the members form, including records that were taken down since
	Batch       string    `json:"batch"`
	BatchSHA256 string    `json:"batch_sha256"`
	Robot       string    `json:"robot"`
	First       time.Time `json:"first"` // crawl span
	Last        time.Time `json:"last"`
	Records     int64     `json:"records"` // this and the next two: only of records to be seen
	Revisits    int64     `json:"revisits"`
	Files       int64     `json:"files"`
}

// WriteManifest writes the archive's lines of a MANIFEST. prefix leads from the MANIFEST's
// directory to the host's.
func (a Archive) WriteManifest(ctx context.Context, w io.Writer, prefix string) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	return a.files(ctx, func(e *Entry, f Form) error {
		sum, err := a.digest(ctx, e, f)
		if err != nil {
			return err
		}
		line := ManifestLine{
			Path: prefix + e.Name, Host: a.host.Name,
			Size: e.Size, SHA256: sum, ETag: e.ETag, Modified: e.Modified,
		}
		if a.isEdition() {
			line.Edition = a.base
			for _, seg := range a.segments {
				of, err := a.provenance(ctx, seg)
				if err != nil {
					return err
				}
				line.Segments = append(line.Segments, of)
			}
		}
		return out.Encode(line)
	})
}

// provenance says where a segment comes from, and counts its records that are to be seen.
func (a Archive) provenance(ctx context.Context, seg catalog.SegmentEntry) (Segment, error) {
	of := Segment{
		SHA256: seg.SHA256, Batch: seg.Batch, BatchSHA256: seg.BatchSHA256, Robot: seg.Robot,
		First: seg.First.UTC(), Last: seg.Last.UTC(), Records: seg.Records, Revisits: seg.Revisits, Files: seg.Files,
	}
	if !a.host.MayLack(seg) {
		return of, nil
	}
	index, err := a.host.from.Segments.Index(ctx, seg)
	if err != nil {
		return of, err
	}
	cells := a.host.Left(seg, index)
	if cells == nil {
		return of, nil
	}
	of.Records, of.Revisits, of.Files = int64(len(cells)), 0, 0
	for _, i := range cells {
		switch kind := index.Cells[i].Kind; {
		case kind.HasFile():
			of.Files++
		case kind == archive.Revisit:
			of.Revisits++
		}
	}
	return of, nil
}

// WriteSums writes the known digests of the archive's files, as sha256sum -c reads them. prefix is
// as in WriteManifest.
func (a Archive) WriteSums(ctx context.Context, w io.Writer, prefix string) error {
	return a.files(ctx, func(e *Entry, f Form) error {
		sum, err := a.digest(ctx, e, f)
		if err != nil || sum == "" {
			return err
		}
		_, err = fmt.Fprintf(w, "%s  %s%s\n", sum, prefix, e.Name)
		return err
	})
}
