package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/spf13/cobra"

	"sheaf/archive"
	"sheaf/internal/display"
)

// archiveCommand returns the commands that work on files, without a service.
func archiveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "archive",
		Short: "List, verify and convert segment files, and import others",
		Long: `FILE is a downloaded archive in the members form (*.members.tar.gz), of one host or of several; a segment
as the object store has it; or a batch, such as sheaf archive import -o writes. See archive/FORMAT.md.`,
	}
	cmd.AddCommand(archiveLs(), archiveCat(), archiveExtract(), archiveVerify(), archiveWARC(), archiveWACZ(), archiveLinks(), archiveCDX(), archiveImport())
	return cmd
}

// eachSegment opens the files one after the other and calls do with each part of each file.
func eachSegment(ctx context.Context, names []string, do func(archive.Source, *archive.Index) error) error {
	for _, name := range names {
		err := withParts(ctx, []string{name}, func(parts []archive.Part) error {
			for _, p := range parts {
				if err := do(p.Source, p.Index); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func archiveLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls FILE...", Short: "List the records: time, status, size, type, URL",
		RunE: func(cmd *cobra.Command, args []string) error {
			out := tabwriter.NewWriter(display.NewHarmlessWriter(cmd.OutOrStdout()), 0, 0, 2, ' ', 0)
			defer out.Flush()
			return eachSegment(cmd.Context(), args, func(_ archive.Source, x *archive.Index) error {
				for _, c := range x.Cells {
					fmt.Fprintf(out, "%s\t%s\t%d\t%d\t%s\t%s\n", c.Time.Format(time.RFC3339), c.Kind, c.Status, c.BodyLen, display.Harmless(c.MIME), display.Harmless(c.URL))
				}
				return nil
			})
		},
	}
}

func archiveCat() *cobra.Command {
	var compressed bool
	cmd := &cobra.Command{
		Use: "cat URL FILE...", Short: "Write the latest version of a page to standard output",
		RunE: func(cmd *cobra.Command, args []string) error {
			url, files := args[0], args[1:]
			return withParts(cmd.Context(), files, func(parts []archive.Part) error {
				var latest *archive.Cell
				var from archive.Source
				for _, p := range parts {
					for i := range p.Index.Cells {
						c := &p.Index.Cells[i]
						if c.Kind == archive.Page && c.URL == url && (latest == nil || !c.Time.Before(latest.Time)) {
							latest, from = c, p.Source
						}
					}
				}
				if latest == nil {
					return fmt.Errorf("no page %s in %d files; sheaf archive ls lists what there is", url, len(files))
				}
				return catPage(cmd.Context(), cmd.OutOrStdout(), from, latest, compressed)
			})
		},
	}
	cmd.Flags().BoolVar(&compressed, "gzip", false, "write the stored deflate blocks as a gzip file")
	return cmd
}

func catPage(ctx context.Context, w io.Writer, src archive.Source, c *archive.Cell, compressed bool) error {
	page, err := archive.PageBodyOf(src, c)
	if err != nil {
		return err
	}
	open := page.Open
	if compressed {
		open = func(ctx context.Context) (io.ReadCloser, error) { return page.OpenRange(ctx, 0, page.Size()) }
	}
	rc, err := open(ctx)
	if err != nil {
		return err
	}
	defer rc.Close()
	_, err = io.Copy(w, rc)
	return err
}

func archiveExtract() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "extract FILE...", Short: "Unpack the pages, and parts of pages, as files, as tar does",
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := os.OpenRoot(dir)
			if err != nil {
				return err
			}
			defer root.Close()
			return eachSegment(cmd.Context(), args, func(src archive.Source, x *archive.Index) error {
				for i := range x.Cells {
					if !x.Cells[i].Kind.HasFile() {
						continue
					}
					if err := extractPage(cmd.Context(), root, src, &x.Cells[i]); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVarP(&dir, "directory", "C", ".", "directory to unpack into")
	return cmd
}

func extractPage(ctx context.Context, root *os.Root, src archive.Source, c *archive.Cell) error {
	if err := root.MkdirAll(path.Dir(c.Name), 0o755); err != nil {
		return err
	}
	f, err := root.Create(c.Name)
	if err != nil {
		return err
	}
	if err := errors.Join(catPage(ctx, f, src, c, false), f.Close()); err != nil {
		return err
	}
	return root.Chtimes(c.Name, c.Time, c.Time)
}

func archiveVerify() *cobra.Command {
	var batch bool
	cmd := &cobra.Command{
		Use: "verify FILE...", Short: "Check everything in the files; say what is wrong and where",
		RunE: func(cmd *cobra.Command, args []string) error {
			bad := 0
			for _, name := range args {
				if err := verifyFile(cmd.Context(), cmd.OutOrStdout(), name, batch); err != nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", display.Harmless(name), display.HarmlessLines(err.Error()))
					bad++
				}
			}
			if bad > 0 {
				return fmt.Errorf("%d of %d files are damaged", bad, len(args))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&batch, "batch", false, "accept only batches of robots")
	return cmd
}

func verifyFile(ctx context.Context, out io.Writer, name string, batch bool) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	report := func(s *archive.Summary) error {
		what := "segment " + s.Segment
		if s.Segment == "" {
			what = "without index"
		}
		if _, err := fmt.Fprintf(out, "%s: %s %s: %d records, %d files, %d revisits, %d bytes", display.Harmless(name), display.Harmless(s.Host),
			display.Harmless(what), s.Records, s.Files, s.Revisits, s.Size); err != nil {
			return err
		}
		if s.SHA256 != "" {
			fmt.Fprintf(out, ", sha256 %s", s.SHA256)
		}
		_, err := fmt.Fprintln(out)
		return err
	}
	if batch {
		_, err := archive.VerifyBatch(f, archive.VerifyOptions{}, report)
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return archive.VerifyFile(ctx, archive.FileSource(f, 0), info.Size(), archive.VerifyOptions{}, report)
}

func archiveCDX() *cobra.Command {
	return &cobra.Command{
		Use: "cdx FILE...", Short: "Write CDXJ lines for the WARC that sheaf archive warc writes of each file, sorted within each file",
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				err := withParts(cmd.Context(), []string{name}, func(parts []archive.Part) error {
					return archive.WriteCDXJ(cmd.Context(), display.NewHarmlessWriter(cmd.OutOrStdout()), warcName(name), parts)
				})
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// warcName returns the name of the WARC that is made from a segment file.
func warcName(file string) string {
	return strings.TrimSuffix(filepath.Base(file), ".tar.gz") + ".warc.gz"
}

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
