package upload

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"os"
	"path"
	"time"

	"github.com/jlaffaye/ftp"

	"sheaf/robotd/batch"
)

// FTP is a Target: it stores the batch and then its manifest in a folder of an
// FTP server. Receipts are asked for by HTTP whichever way the batch went.
type FTP struct {
	Addr          string // host:port
	Robot, Secret string
	Dir           string // folder on the server; empty: where the login leads to
	TLS           *tls.Config
	Timeout       time.Duration // for connecting and for each answer; default 30 s
}

// Send stores the batch, going on behind the bytes that the server has.
func (f *FTP) Send(ctx context.Context, b batch.Spooled) error {
	conn, err := f.login(ctx)
	if err != nil {
		return fmt.Errorf("ftp %s: %w", f.Addr, err)
	}
	// A cancelled context must not wait for a server that does not answer.
	stop := context.AfterFunc(ctx, func() { _ = conn.Quit() })
	defer func() {
		if stop() {
			_ = conn.Quit()
		}
	}()
	if err := f.store(ctx, conn, b); err != nil {
		return fmt.Errorf("ftp %s: %s: %w", f.Addr, path.Base(b.Path), err)
	}
	name := path.Join(f.Dir, string(b.ID)+".manifest")
	if err := conn.Stor(name, bytes.NewReader(b.Signed)); err != nil {
		return fmt.Errorf("ftp %s: %s: %w", f.Addr, name, err)
	}
	return nil
}

func (f *FTP) login(ctx context.Context) (*ftp.ServerConn, error) {
	timeout := f.Timeout
	if timeout <= 0 {
		timeout = 30 * time.Second
	}
	opts := []ftp.DialOption{ftp.DialWithContext(ctx), ftp.DialWithTimeout(timeout), ftp.DialWithShutTimeout(timeout)}
	if f.TLS != nil {
		opts = append(opts, ftp.DialWithExplicitTLS(f.TLS))
	}
	conn, err := ftp.Dial(f.Addr, opts...)
	if err != nil {
		return nil, err
	}
	if err := conn.Login(f.Robot, f.Secret); err != nil {
		return nil, errors.Join(err, conn.Quit())
	}
	return conn, nil
}

func (f *FTP) store(ctx context.Context, conn *ftp.ServerConn, b batch.Spooled) error {
	name := path.Join(f.Dir, string(b.ID)+".tar.gz")
	have, err := conn.FileSize(name)
	if err != nil {
		var reply *textproto.Error
		if !errors.As(err, &reply) || reply.Code < 500 {
			return err
		}
		have = 0 // not there, or the server does not say
	}
	if have == b.Size {
		return nil
	}
	if have > b.Size {
		have = 0
	}
	file, err := os.Open(b.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	body := &cancelReader{ctx: ctx, r: io.NewSectionReader(file, have, b.Size-have)}
	if have > 0 {
		return conn.StorFrom(name, body, uint64(have))
	}
	return conn.Stor(name, body)
}

// cancelReader ends with the context's error when the context ends.
type cancelReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *cancelReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
