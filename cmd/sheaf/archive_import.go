package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"sheaf/cmd/sheaf/admin"
	"sheaf/ingest"
	"sheaf/ingest/accept"
	"sheaf/ingest/foreign"
	"sheaf/internal/wire"
	"sheaf/serve/client"
)

func archiveImport() *cobra.Command {
	var opt importOptions
	cmd := &cobra.Command{
		Use: "import FILE...", Short: "Import WARC, ARC, WACZ and tar files of pages into the archive",
		Long: `Send each file to the service, which makes a batch of it and publishes the batch with the next edition.

FILE is a WARC file (1.0 or 1.1) or an ARC file (1), each plain, in gzip or in Zstandard; a WACZ file; a tar
or tar.gz file with one directory for each host; or a batch of a robot. A file that was imported before is not imported again. Records that are neither pages
nor other answers (requests, metadata, …) are kept apart: see sheaf batch others. The report names those of
them that are answers but cannot be found at their address, and says why.

With --collection the files become part of a collection, which consumers see with its source and licence
(sheaf collection ls), can query, and which can be restricted (sheaf access) and taken down as a whole.

A host map is a file with the name of a directory and its host in each line, for directories that do not
have the name of their host. A tar may hold one beside these directories; that of --hosts decides before it.
All of a tar's directories may lie in one. With -o, the file is converted here, and nothing is sent.

A damaged file is refused. With --lenient, only damaged records of a WARC, ARC or WACZ are left out: those
whose digest or length is wrong, those in a damaged gzip member or Zstandard frame, and the one in which a
file is cut off. The report lists the first hundred places, and says how many there were. Trees of page
files are always read strictly.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opt.check(len(args)); err != nil {
				return err
			}
			if opt.output != "" {
				return convertFile(cmd, args[0], opt)
			}
			return admin.AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
				c.HTTP.Timeout = admin.ImportTime
				for _, name := range args {
					if err := importFile(cmd, c, name, opt); err != nil {
						return fmt.Errorf("%s: %w", name, err)
					}
				}
				return nil
			})(cmd, args)
		},
	}
	cmd.Flags().StringVar(&opt.hosts, "hosts", "", "file with a host map")
	cmd.Flags().BoolVar(&opt.lenient, "lenient", false, "leave out the damaged records of a WARC, ARC or WACZ, and say which")
	cmd.Flags().StringVar(&opt.collection.Name, "collection", "", "the collection that the files belong to")
	cmd.Flags().StringVar(&opt.collection.Source, "source", "", "where the collection comes from")
	cmd.Flags().StringVar(&opt.collection.Licence, "licence", "", "on which terms it may be used")
	cmd.Flags().StringVarP(&opt.output, "output", "o", "", "write the batch, an ordinary tar.gz, to this file instead")
	return admin.OperatorFlags(cmd)
}

// importOptions are the command's flags.
type importOptions struct {
	hosts, output string
	lenient       bool
	collection    wire.Collection
}

// check returns an error if flags contradict each other.
func (o *importOptions) check(files int) error {
	switch {
	case o.output != "" && files != 1:
		return fmt.Errorf("-o takes one FILE, not %d", files)
	case o.output != "" && o.collection != wire.Collection{}:
		return errors.New("-o writes no collection; name it when the batch is imported")
	case o.collection.Name == "" && o.collection != wire.Collection{}:
		return errors.New("--source and --licence are of a collection; name it with --collection")
	}
	return o.collection.Check()
}

func importFile(cmd *cobra.Command, c *client.Client, name string, opt importOptions) error {
	body, w := io.Pipe()
	form := multipart.NewWriter(w)
	go func() { w.CloseWithError(writeImport(form, name, opt)) }()
	defer body.Close()
	var done accept.Imported
	if err := c.Send(cmd.Context(), http.MethodPost, ingest.Import.Path, form.FormDataContentType(), body, &done); err != nil {
		return err
	}
	return admin.Show(cmd, done, func(w io.Writer) {
		if !done.Fresh {
			fmt.Fprintf(w, "%s: imported before as batch %s, which is %s\n", name, done.Batch, done.State)
			return
		}
		fmt.Fprintf(w, "%s: batch %s is %s: %d hosts, %d pages, %d other answers, %d revisits; %d records kept apart\n",
			name, done.Batch, done.State, done.Hosts, done.Pages, done.Responses, done.Revisits, done.Others)
		writeLosses(w, name, done.Losses, done.Aside, done.Unread)
	})
}

// writeLosses prints the numbers of a file's losses, by kind, and lists them.
func writeLosses(w io.Writer, name string, damaged, aside, unread foreign.Losses) {
	for _, kind := range []struct {
		format string
		foreign.Losses
	}{
		{"%s: left out %d damaged places:\n", damaged},
		{"%s: %d records kept apart are found at no address:\n", aside},
		{"%s: %d files of the WACZ were not read:\n", unread},
	} {
		if kind.Lost == 0 {
			continue
		}
		fmt.Fprintf(w, kind.format, name, kind.Lost)
		for _, loss := range kind.Losses.Losses {
			fmt.Fprintf(w, "  %v\n", loss)
		}
		if more := kind.Lost - int64(len(kind.Losses.Losses)); more > 0 {
			fmt.Fprintf(w, "  and %d more\n", more)
		}
	}
}

// writeImport writes the parts of the request, the file last.
func writeImport(form *multipart.Writer, name string, opt importOptions) error {
	if opt.lenient {
		if err := form.WriteField("lenient", "true"); err != nil {
			return err
		}
	}
	if opt.collection.Name != "" {
		text, err := json.Marshal(opt.collection)
		if err == nil {
			err = form.WriteField("collection", string(text))
		}
		if err != nil {
			return err
		}
	}
	for _, part := range []struct{ field, file string }{{"hosts", opt.hosts}, {"file", name}} {
		if part.file == "" {
			continue
		}
		f, err := os.Open(part.file)
		if err != nil {
			return err
		}
		to, err := form.CreateFormFile(part.field, filepath.Base(part.file))
		if err == nil {
			_, err = io.Copy(to, f)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return form.Close()
}

// convertFile converts a file to a batch, without a service.
func convertFile(cmd *cobra.Command, name string, flags importOptions) (err error) {
	output := flags.output
	opt := foreign.Options{Robot: wire.ImportRobot, Dir: filepath.Dir(output), Lenient: flags.lenient}
	if flags.hosts != "" {
		if opt.Hosts, err = foreign.ReadHostMap(flags.hosts); err != nil {
			return err
		}
	}
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	result, err := convertTo(cmd.Context(), in, out, opt)
	if err = errors.Join(err, out.Close()); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", name, err), os.Remove(output))
	}
	return admin.Show(cmd, result, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %d hosts, %d pages, %d other answers, %d revisits; %d records left out\n",
			output, result.Hosts, result.Pages, result.Responses, result.Revisits, result.Others)
		writeLosses(w, name, result.Losses, result.Aside, result.Unread)
	})
}

func convertTo(ctx context.Context, in, out *os.File, opt foreign.Options) (*foreign.Result, error) {
	buffered := bufio.NewWriter(out)
	result, err := foreign.Convert(ctx, in, buffered, opt)
	return result, errors.Join(err, buffered.Flush())
}
