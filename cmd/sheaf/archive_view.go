package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/spf13/cobra"

	"sheaf/archive"
	"sheaf/internal/display"
)

func archiveWARC() *cobra.Command {
	return &cobra.Command{
		Use: "warc FILE...", Short: "Write the records of all files to standard output, as one .warc.gz",
		RunE: func(cmd *cobra.Command, args []string) error {
			return withParts(cmd.Context(), args, func(parts []archive.Part) error {
				view, err := archive.NewView(archive.WARC, parts)
				if err != nil {
					return err
				}
				return copyAll(cmd.Context(), cmd.OutOrStdout(), view)
			})
		},
	}
}

func archiveLinks() *cobra.Command {
	return &cobra.Command{
		Use: "links FILE...", Short: "Write the links of the pages of all files: source, target and kind, separated by tabs",
		RunE: func(cmd *cobra.Command, args []string) error {
			return withParts(cmd.Context(), args, func(parts []archive.Part) error {
				view, err := archive.NewView(archive.Links, parts)
				if err != nil {
					return err
				}
				packed, err := view.OpenRange(cmd.Context(), 0, view.Size())
				if err != nil {
					return err
				}
				defer packed.Close()
				text, err := gzip.NewReader(packed)
				if err != nil {
					return err
				}
				_, err = io.Copy(display.NewHarmlessWriter(cmd.OutOrStdout()), text)
				return err
			})
		},
	}
}

func archiveWACZ() *cobra.Command {
	var title string
	cmd := &cobra.Command{
		Use: "wacz FILE...", Short: "Write the records of all files to standard output, as one .wacz for ReplayWeb.page",
		RunE: func(cmd *cobra.Command, args []string) error {
			return withParts(cmd.Context(), args, func(parts []archive.Part) error {
				var created time.Time // date of the newest record, so that the same files give the same bytes
				for _, p := range parts {
					for i := range p.Index.Cells {
						if t := p.Index.Cells[i].Time; t.After(created) {
							created = t
						}
					}
				}
				wacz, err := archive.NewWACZ(cmd.Context(), parts, archive.WACZOptions{Title: title, Created: created})
				if err != nil {
					return err
				}
				return copyAll(cmd.Context(), cmd.OutOrStdout(), wacz)
			})
		},
	}
	cmd.Flags().StringVar(&title, "title", "", "title of the collection")
	return cmd
}

// withParts opens files, reads their indexes, and calls do once with the parts of all files.
func withParts(ctx context.Context, names []string, do func([]archive.Part) error) (err error) {
	var parts []archive.Part
	var open []io.Closer
	defer func() {
		for _, f := range open {
			err = errors.Join(err, f.Close())
		}
	}()
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		open = append(open, f)
		info, err := f.Stat()
		if err != nil {
			return err
		}
		found, err := archive.Parts(ctx, archive.FileSource(f, 0), info.Size())
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		parts = append(parts, found...)
	}
	return do(parts)
}

// copyAll writes the whole content of a view to w.
func copyAll(ctx context.Context, w io.Writer, f interface {
	Size() int64
	OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error)
}) error {
	rc, err := f.OpenRange(ctx, 0, f.Size())
	if err != nil {
		return err
	}
	defer rc.Close()
	_, err = io.Copy(w, rc)
	return err
}
