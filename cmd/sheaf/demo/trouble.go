package demo

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/jlaffaye/ftp"

	"sheaf/ingest"
	"sheaf/ingest/inbox"
	"sheaf/internal/loop"
	"sheaf/internal/wire"
	robotclient "sheaf/robotd/client"
	"sheaf/serve/client"
)

// trouble reports, until ctx ends, why batches do not arrive: for example, a robot does not collect
// because its disk is too full, or the service refuses its batch. It reports each reason of each
// robot once.
func (d *day) trouble(ctx context.Context, n int) {
	told := map[string]bool{}
	tell := func(format string, args ...any) {
		text := fmt.Sprintf("day %d: ", n) + fmt.Sprintf(format, args...)
		if !told[text] {
			told[text] = true
			d.to.Tell(Event{Kind: "waiting", Day: n, Text: text})
		}
	}
	for {
		if !loop.Pause(ctx, time.Second) {
			return
		}
		for i, r := range d.robots {
			status, err := r.Status()
			if err != nil {
				continue
			}
			for _, warning := range status.Warnings {
				tell("%s: %s", robots[i], warning)
			}
			var reasons []string
			for _, b := range status.Spool {
				reasons = append(reasons, b.Error)
			}
			for _, t := range status.Targets {
				if t.Failures > 0 {
					reasons = append(reasons, t.Error)
				}
			}
			for _, why := range reasons {
				if why != "" {
					tell("the batch of %s waits: %s", robots[i], why)
				}
			}
		}
	}
}

// strayHost is a host that no robot was given. It has the pages of the site strayOf.
const (
	strayHost = "old.w3m.example.ac.jp"
	strayOf   = "w3m.example.ac.jp"
)

// stray puts a batch into the quarantine, so that there is something to decide on the board. It
// acts as the people at a robot's site, who put an old copy of a site, as a tar of its files, into
// the robot's folder by FTP. The service takes the file for a batch without a manifest. But the
// robot was not given that host, so an operator has to release or discard the batch. stray returns
// the batch once it is in the quarantine.
func (d *day) stray(ctx context.Context) (*inbox.Batch, error) {
	file, err := d.oldCopy()
	if err != nil {
		return nil, err
	}
	if err := d.put(ctx, robots[0], "old-copy.tar.gz", file); err != nil {
		return nil, fmt.Errorf("put a file by FTP as robot %s: %w", robots[0], err)
	}
	for {
		list, err := client.Call(ctx, d.operator, ingest.ListBatches, ingest.BatchQuery{State: wire.StateQuarantined})
		if err != nil {
			return nil, err
		}
		if len(list.Batches) > 0 {
			return list.Batches[0], nil
		}
		if !loop.Pause(ctx, 100*time.Millisecond) {
			return nil, ctx.Err()
		}
	}
}

// oldCopy packs the pages of strayOf as pages of strayHost.
func (d *day) oldCopy() ([]byte, error) {
	var file bytes.Buffer
	z := gzip.NewWriter(&file)
	t := tar.NewWriter(z)
	for _, page := range d.web.Pages(1) {
		at, err := url.Parse(page)
		if err != nil {
			return nil, err
		}
		if at.Host != strayOf {
			continue
		}
		body, _, err := d.web.Body(1, at.Host, at.Path)
		if err != nil {
			return nil, err
		}
		name := path.Join(strayHost, at.Path)
		if strings.HasSuffix(at.Path, "/") {
			name = path.Join(name, "index.html")
		}
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(body)), ModTime: time.Now().Add(-365 * 24 * time.Hour)}); err != nil {
			return nil, err
		}
		if _, err := t.Write(body); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return file.Bytes(), nil
}

// put stores a file by FTP with the robot's name and secret, as people at its site do.
func (d *day) put(ctx context.Context, robot, name string, file []byte) error {
	id, err := robotclient.LoadIdentity(d.robotDir(robot))
	if err != nil {
		return err
	}
	conn, err := ftp.Dial(d.service.Addresses().Drop, ftp.DialWithContext(ctx), ftp.DialWithTimeout(10*time.Second))
	if err != nil {
		return err
	}
	defer conn.Quit()
	if err := conn.Login(id.Robot, id.Secret); err != nil {
		return err
	}
	return conn.Stor(name, bytes.NewReader(file))
}
