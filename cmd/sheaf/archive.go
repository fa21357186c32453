package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sheaf/archive"
)

// archiveCommand groups the commands that work on segment and batch files directly.
func archiveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "archive",
		Short: "Look into segment files, verify and convert them",
		Long:  "The files are segments as the archive stores them, or batches. See archive/FORMAT.md.",
	}
	cmd.AddCommand(archiveLs(), archiveCat(), archiveExtract(), archiveVerify(), archiveWARC(), archiveWACZ(), archiveLinks(), archiveCDX(), archiveImport())
	return cmd
}

// eachSegment opens every file, reads its index and calls do with both.
func eachSegment(ctx context.Context, names []string, do func(name string, src archive.Source, x *archive.Index) error) error {
	for _, name := range names {
		if err := oneSegment(ctx, name, do); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func oneSegment(ctx context.Context, name string, do func(string, archive.Source, *archive.Index) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	src := archive.FileSource(f, 0)
	x, err := archive.ReadIndex(ctx, src, info.Size())
	if err != nil {
		return err
	}
	return do(name, src, x)
}

func archiveLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls FILE...", Short: "List the records: time, status, size, type, URL", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			defer out.Flush()
			return eachSegment(cmd.Context(), args, func(_ string, _ archive.Source, x *archive.Index) error {
				for _, c := range x.Cells {
					fmt.Fprintf(out, "%s\t%s\t%d\t%d\t%s\t%s\n", c.Time.Format(time.RFC3339), c.Kind, c.Status, c.BodyLen, c.MIME, c.URL)
				}
				return nil
			})
		},
	}
}

func archiveCat() *cobra.Command {
	var compressed bool
	cmd := &cobra.Command{
		Use: "cat URL FILE...", Short: "Write the latest version of a page to the standard output", Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			url, files := args[0], args[1:]
			latest, from := archive.Cell{}, ""
			err := eachSegment(cmd.Context(), files, func(name string, _ archive.Source, x *archive.Index) error {
				for _, c := range x.Cells {
					if c.Kind == archive.Page && c.URL == url && !c.Time.Before(latest.Time) {
						latest, from = c, name
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			if from == "" {
				return fmt.Errorf("no page %s in %d files; sheaf archive ls lists what there is", url, len(files))
			}
			f, err := os.Open(from)
			if err != nil {
				return err
			}
			defer f.Close()
			return catPage(cmd.Context(), cmd.OutOrStdout(), archive.FileSource(f, 0), &latest, compressed)
		},
	}
	cmd.Flags().BoolVar(&compressed, "gzip", false, "write the stored blocks as a gzip file")
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
		Use: "extract FILE...", Short: "Unpack the pages as files, as tar would", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := os.OpenRoot(dir)
			if err != nil {
				return err
			}
			defer root.Close()
			return eachSegment(cmd.Context(), args, func(_ string, src archive.Source, x *archive.Index) error {
				for i := range x.Cells {
					if x.Cells[i].Kind != archive.Page {
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
	cmd.Flags().StringVarP(&dir, "directory", "C", ".", "where to unpack")
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
	err = catPage(ctx, f, src, c, false)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return root.Chtimes(c.Name, c.Time, c.Time)
}

func archiveVerify() *cobra.Command {
	var batch bool
	cmd := &cobra.Command{
		Use: "verify FILE...", Short: "Inflate and check everything; say where and what is wrong", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			bad := 0
			for _, name := range args {
				if err := verifyFile(cmd.OutOrStdout(), name, batch); err != nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", name, err)
					bad++
				}
			}
			if bad > 0 {
				return fmt.Errorf("%d of %d files are not as they should be", bad, len(args))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&batch, "batch", false, "the files are robots' batches")
	return cmd
}

func verifyFile(out io.Writer, name string, batch bool) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	report := func(s *archive.Summary) error {
		_, err := fmt.Fprintf(out, "%s: %s segment %s: %d records, %d files, %d revisits, %d bytes, sha256 %s\n",
			name, s.Host, s.Segment, s.Records, s.Files, s.Revisits, s.Size, s.SHA256)
		return err
	}
	if batch {
		_, err := archive.VerifyBatch(f, archive.VerifyOptions{}, report)
		return err
	}
	s, err := archive.VerifySegment(f, archive.VerifyOptions{})
	if err != nil {
		return err
	}
	return report(s)
}

// archiveView writes a view of all the files as one.
func archiveCDX() *cobra.Command {
	return &cobra.Command{
		Use: "cdx FILE...", Short: "Write the CDXJ lines of each file's WARC view, sorted within the file", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return eachSegment(cmd.Context(), args, func(name string, _ archive.Source, x *archive.Index) error {
				return x.CDXJ(cmd.OutOrStdout(), warcName(name))
			})
		},
	}
}

// warcName is what the WARC view of a segment file would be called.
func warcName(file string) string {
	return strings.TrimSuffix(filepath.Base(file), ".tar.gz") + ".warc.gz"
}
