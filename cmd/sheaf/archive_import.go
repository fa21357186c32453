package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"sheaf/ingest/accept"
	"sheaf/ingest/foreign"
	"sheaf/internal/api"
	"sheaf/internal/terminal"
	"sheaf/internal/wire"
	"sheaf/serve/client"
)

// importTime bounds the sending and converting of one file.
const importTime = 24 * time.Hour

func archiveImport() *cobra.Command {
	var hosts, output string
	cmd := &cobra.Command{
		Use: "import FILE...", Short: "Bring foreign WARCs and tar.gz trees of pages into the archive", Args: cobra.MinimumNArgs(1),
		Long: `Sends each file to the service, which makes a batch of it and publishes that with the next edition.

Taken are WARC files (1.0, 1.1; plain, one gzip member, a member a record), tar and tar.gz files with
a directory a host, and batches of robots. A file that was imported before is not taken again. Records that are neither
pages nor answers (requests, metadata, ...) are kept beside the batch: sheaf batch others ID.

A host map has a line of directory and host for each directory of a tree that is not called like its host.
With -o the file is converted here, and nothing is sent.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "" {
				if len(args) != 1 {
					return fmt.Errorf("-o takes one FILE, not %d", len(args))
				}
				return convertFile(cmd, args[0], output, hosts)
			}
			c, err := newClient(cmd)
			if err != nil {
				return err
			}
			c.HTTP.Timeout = importTime
			for _, name := range args {
				if err := importFile(cmd, c, name, hosts); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&hosts, "hosts", "", "a host map")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write the batch to this file instead, an ordinary tar.gz")
	return operatorFlags(cmd)
}

func importFile(cmd *cobra.Command, c *client.Client, name, hosts string) error {
	body, w := io.Pipe()
	form := multipart.NewWriter(w)
	go func() { w.CloseWithError(writeImport(form, name, hosts)) }()
	defer body.Close()
	var done accept.Imported
	if err := c.Send(cmd.Context(), http.MethodPost, api.PathAdminImports, form.FormDataContentType(), body, &done); err != nil {
		return err
	}
	return show(cmd, done, func(w io.Writer) error {
		if !done.Fresh {
			_, err := fmt.Fprintf(w, "%s: imported before as batch %s, which is %s\n", name, done.Batch, done.State)
			return err
		}
		_, err := fmt.Fprintf(w, "%s: batch %s is %s: %d hosts, %d pages, %d other answers, %d revisits; %d records kept beside it\n",
			name, done.Batch, done.State, done.Hosts, done.Pages, done.Responses, done.Revisits, done.Others)
		return err
	})
}

// writeImport writes the request's parts.
func writeImport(form *multipart.Writer, name, hosts string) error {
	for _, part := range []struct{ field, file string }{{"hosts", hosts}, {"file", name}} {
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

// convertFile makes a batch of a file, without a service.
func convertFile(cmd *cobra.Command, name, output, hosts string) (err error) {
	opt := foreign.Options{Robot: wire.ImportRobot, Dir: filepath.Dir(output)}
	if hosts != "" {
		if opt.Hosts, err = readHostMap(hosts); err != nil {
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
	_, err = fmt.Fprintf(terminal.NewWriter(cmd.OutOrStdout()), "%s: %d hosts, %d pages, %d other answers, %d revisits; %d records left out\n",
		output, result.Hosts, result.Pages, result.Responses, result.Revisits, result.Others)
	return err
}

func convertTo(ctx context.Context, in, out *os.File, opt foreign.Options) (*foreign.Result, error) {
	buffered := bufio.NewWriter(out)
	result, err := foreign.Convert(ctx, in, buffered, opt)
	return result, errors.Join(err, buffered.Flush())
}

func readHostMap(name string) (foreign.HostMap, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := foreign.ParseHostMap(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}
