package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
)

// ManifestLine is one line of a MANIFEST: one file, and where it comes from.
type ManifestLine struct {
	Path     string    `json:"path"` // from the MANIFEST's directory
	Host     string    `json:"host"`
	Edition  string    `json:"edition,omitempty"` // absent of current and all
	Size     int64     `json:"size"`
	SHA256   string    `json:"sha256,omitempty"` // absent where the file is of several segments
	ETag     string    `json:"etag"`
	Modified time.Time `json:"modified"`
	Segments []Segment `json:"segments,omitempty"` // of an edition's files
}

// Segment is what one batch brought of a host.
type Segment struct {
	SHA256      string    `json:"sha256"` // as stored: the members form, with what is taken down since
	Batch       string    `json:"batch"`
	BatchSHA256 string    `json:"batch_sha256"`
	Robot       string    `json:"robot"`
	First       time.Time `json:"first"` // crawl span
	Last        time.Time `json:"last"`
	Records     int64     `json:"records"` // here and below: that are not taken down
	Revisits    int64     `json:"revisits"`
	Files       int64     `json:"files"`
}

// writeManifest writes the MANIFEST of the host's directory.
func (h *host) writeManifest(ctx context.Context, w io.Writer) error {
	for a := range h.archives() {
		if err := a.writeFiles(ctx, w, ""); err != nil {
			return err
		}
	}
	return nil
}

// writeSums writes the SHA256SUMS of the host's directory. Only editions are in
// it: current and all change, and a digest of what they were yesterday misleads.
func (h *host) writeSums(ctx context.Context, w io.Writer) error {
	for a := range h.brought() {
		if err := a.writeFileSums(ctx, w, ""); err != nil {
			return err
		}
	}
	return nil
}

// writeFiles writes the manifest's lines of the archive, its path from the
// manifest's directory being prefix.
func (s selection) writeFiles(ctx context.Context, w io.Writer, prefix string) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	for _, f := range forms {
		if !s.offers(f) {
			continue
		}
		e, err := s.listedFile(ctx, f)
		if err != nil {
			return err
		}
		sum, err := s.digest(ctx, e, f)
		if err != nil {
			return err
		}
		line := ManifestLine{
			Path: prefix + e.Name, Host: s.name,
			Size: e.Size, SHA256: sum, ETag: e.ETag, Modified: e.Modified,
		}
		if s.isEdition() {
			line.Edition = s.base
			for _, l := range s.lines {
				segment := Segment{
					SHA256: l.SHA256, Batch: l.Batch, BatchSHA256: l.BatchSHA256, Robot: l.Robot,
					First: l.First.UTC(), Last: l.Last.UTC(), Records: l.Records, Revisits: l.Revisits, Files: l.Files,
				}
				if err := s.countLeft(ctx, l, &segment); err != nil {
					return err
				}
				line.Segments = append(line.Segments, segment)
			}
		}
		if err := out.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// countLeft counts what is left of a segment from which records are taken down.
func (s selection) countLeft(ctx context.Context, l catalog.SegmentEntry, of *Segment) error {
	if len(s.taken) == 0 {
		return nil
	}
	index, err := s.index(ctx, l)
	if err != nil {
		return err
	}
	cells := s.left(l, index)
	if cells == nil {
		return nil
	}
	of.Records, of.Revisits, of.Files = int64(len(cells)), 0, 0
	for _, i := range cells {
		switch index.Cells[i].Kind {
		case archive.Page:
			of.Files++
		case archive.Revisit:
			of.Revisits++
		}
	}
	return nil
}

// writeFileSums writes the digests of the archive that are known.
func (s selection) writeFileSums(ctx context.Context, w io.Writer, prefix string) error {
	for _, f := range forms {
		if !s.offers(f) {
			continue
		}
		e, err := s.listedFile(ctx, f)
		if err != nil {
			return err
		}
		sum, err := s.digest(ctx, e, f)
		if err != nil {
			return err
		}
		if sum == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s  %s%s\n", sum, prefix, e.Name); err != nil {
			return err
		}
	}
	return nil
}
