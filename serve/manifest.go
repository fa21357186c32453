package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
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
	SHA256      string    `json:"sha256"` // as stored: the members form
	Batch       string    `json:"batch"`
	BatchSHA256 string    `json:"batch_sha256"`
	Robot       string    `json:"robot"`
	First       time.Time `json:"first"` // crawl span
	Last        time.Time `json:"last"`
	Records     int64     `json:"records"`
	Revisits    int64     `json:"revisits"`
	Files       int64     `json:"files"`
}

// writeManifest writes the MANIFEST of the host's directory.
func (h *host) writeManifest(ctx context.Context, w io.Writer) error {
	for _, base := range append(h.editions(), baseCurrent, baseAll) {
		if err := h.writeFiles(ctx, w, base, ""); err != nil {
			return err
		}
	}
	return nil
}

// writeSums writes the SHA256SUMS of the host's directory. Only editions are in
// it: current and all change, and a digest of what they were yesterday misleads.
func (h *host) writeSums(ctx context.Context, w io.Writer) error {
	for _, edition := range h.editions() {
		if err := h.writeFileSums(ctx, w, edition, ""); err != nil {
			return err
		}
	}
	return nil
}

// writeFiles writes the manifest's lines of one archive, its path from the
// manifest's directory being prefix.
func (h *host) writeFiles(ctx context.Context, w io.Writer, base, prefix string) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	a := h.archive(base)
	for _, f := range forms {
		if !a.offers(f) {
			continue
		}
		e, err := a.file(ctx, base+f.suffix, f)
		if err != nil {
			return err
		}
		line := ManifestLine{
			Path: prefix + e.Name, Host: h.name,
			Size: e.Size, SHA256: e.SHA256, ETag: e.ETag, Modified: e.Modified,
		}
		if base != baseCurrent && base != baseAll {
			line.Edition = base
			for _, l := range a.lines {
				line.Segments = append(line.Segments, Segment{
					SHA256: l.SHA256, Batch: l.Batch, BatchSHA256: l.BatchSHA256, Robot: l.Robot,
					First: l.First.UTC(), Last: l.Last.UTC(), Records: l.Records, Revisits: l.Revisits, Files: l.Files,
				})
			}
		}
		if err := out.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// writeFileSums writes the digests of one archive that are known.
func (h *host) writeFileSums(ctx context.Context, w io.Writer, base, prefix string) error {
	a := h.archive(base)
	for _, f := range forms {
		if !a.offers(f) {
			continue
		}
		e, err := a.file(ctx, base+f.suffix, f)
		if err != nil {
			return err
		}
		if e.SHA256 == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s  %s%s\n", e.SHA256, prefix, e.Name); err != nil {
			return err
		}
	}
	return nil
}
