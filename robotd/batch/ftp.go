package batch

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"net/url"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jlaffaye/ftp"

	"sheaf/internal/stream"
	"sheaf/internal/wire"
)

// FTP is a Target and a ReceiptSource. It stores the batch and then its manifest in a folder of an
// FTP server, and reads the receipt from there.
type FTP struct {
	Addr          string // host:port
	Robot, Secret string
	Dir           string        // folder on the server; empty: the login folder
	TLS           *tls.Config   // not nil: AUTH TLS, also for data; a missing server name is added
	Proxy         *url.URL      // HTTP or SOCKS5, for control and data connections; nil: none
	Key           wire.Verifier // of receipts
	Timeout       time.Duration // for connecting, for each answer, and for a stalled transfer; default 30 s

	Moved func(at int64, first bool) // receives the progress of a batch; may be nil: see Uploader.Moved
}

// Name returns the server's URL.
func (f *FTP) Name() string {
	if f.TLS != nil {
		return "ftps://" + f.Addr
	}
	return "ftp://" + f.Addr
}

// Send stores the batch, continuing after the bytes that the server has, and then the manifest.
func (f *FTP) Send(ctx context.Context, b Spooled) error {
	return f.session(ctx, func(conn *ftp.ServerConn) error {
		if err := f.store(ctx, conn, b); err != nil {
			return fmt.Errorf("%s: %w", path.Base(b.Path), err)
		}
		name := path.Join(f.Dir, string(b.ID)+".manifest")
		if err := conn.Stor(name, bytes.NewReader(b.Signed)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
}

// Receipt reads the receipt of a batch and checks its signature and batch ID.
func (f *FTP) Receipt(ctx context.Context, id wire.BatchID, sha256 string) (receipt *wire.Receipt, err error) {
	err = f.session(ctx, func(conn *ftp.ServerConn) error {
		name := path.Join(f.Dir, string(id)+"."+sha256+".receipt")
		r, err := conn.Retr(name)
		if err != nil {
			if code, _ := reply(err); code == ftp.StatusFileUnavailable {
				return fmt.Errorf("%w: %s: %w", ErrUnknown, name, err)
			}
			return fmt.Errorf("%s: %w", name, err)
		}
		data, err := io.ReadAll(io.LimitReader(r, 1<<20))
		if err = errors.Join(err, r.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		receipt, err = openReceipt(ctx, data, f.Key, id)
		return err
	})
	return receipt, err
}

// session logs in, calls work and logs out.
func (f *FTP) session(ctx context.Context, work func(*ftp.ServerConn) error) error {
	d := &ftpDialer{ctx: ctx, target: f, timeout: f.Timeout}
	d.timeout = cmp.Or(d.timeout, 30*time.Second)
	conn, err := d.login()
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), &DownError{err})
	}
	// If ctx is cancelled, do not wait for a server that does not answer.
	stop := context.AfterFunc(ctx, d.cut)
	err = work(conn)
	if stop() {
		_ = conn.Quit() // work has returned; its error, if any, says more
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), judged(err))
	}
	return nil
}

// reply returns the code and text of an FTP reply that is an error.
func reply(err error) (int, string) {
	if r, ok := errors.AsType[*textproto.Error](err); ok {
		return r.Code, r.Msg
	}
	return 0, ""
}

var againIn = regexp.MustCompile(`again in ([0-9]{1,9}) s`)

// judged wraps err in a *LaterError, *DownError or *RefusedError if the server's reply says so.
func judged(err error) error {
	code, text := reply(err)
	if m := againIn.FindStringSubmatch(text); code == 452 && m != nil {
		n, _ := strconv.Atoi(m[1]) // at most nine digits
		return &LaterError{After: time.Duration(min(n, 7*24*3600)) * time.Second, Err: err}
	}
	if code == ftp.StatusNotAvailable {
		return &DownError{err}
	}
	if word, _, ok := strings.Cut(text, ": "); ok && code >= 500 {
		if reason, ok := refusal(word); ok {
			return &RefusedError{reason, err}
		}
	}
	return err
}

func (f *FTP) store(ctx context.Context, conn *ftp.ServerConn, b Spooled) error {
	name := path.Join(f.Dir, string(b.ID)+".tar.gz")
	have, err := conn.FileSize(name)
	if err != nil {
		if code, _ := reply(err); code < 500 {
			return err
		}
		have = 0 // there is no file, or the server does not say
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
	body := stream.UntilDone(ctx, moving(io.NewSectionReader(file, have, b.Size-have), have, f.Moved))
	if have > 0 {
		return conn.StorFrom(name, body, uint64(have))
	}
	return conn.Stor(name, body)
}
