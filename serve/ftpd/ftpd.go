// Package ftpd serves the tree over FTP: it is a handler for internal/ftp. The tree has the same
// names, sizes and times as over HTTP under /pub/. Clients cannot write to it.
package ftpd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"path"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"sheaf/internal/ftp"
	"sheaf/internal/passwords"
	"sheaf/internal/stream"
	"sheaf/internal/transfers"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/tree"
)

// Options of a handler. Tree, Accounts and Recorder are needed.
type Options struct {
	Tree     *tree.Tree
	Contact  string // address for questions; may be empty
	Accounts *account.Accounts
	Recorder transfers.Recorder
	Running  *transfers.Running // is told of downloads under way; may be nil
	Log      *slog.Logger       // nil: discards
}

// New returns the handler for ftp.Run. It fails if a needed option is missing.
func New(opt Options) (ftp.Handler, error) {
	if opt.Tree == nil || opt.Accounts == nil || opt.Recorder == nil {
		return nil, errors.New("ftpd: options lack a tree, accounts or recorder")
	}
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	return handler{opt, newResumes()}, nil
}

type handler struct {
	Options
	resumes *resumes
}

// Login implements ftp.Handler. As usual, "ftp" is another name for "anonymous".
func (h handler) Login(ctx context.Context, user, password string, remote net.Addr) (ftp.Session, error) {
	if user == "ftp" {
		user = account.Anonymous
	}
	a, err := h.Accounts.Login(ctx, user, password, remote.String())
	if tooMany, ok := errors.AsType[*passwords.TooMany](err); ok {
		return nil, &ftp.Error{Code: 421, Msg: sentence(tooMany)}
	}
	if errors.Is(err, account.ErrCredentials) {
		text := "Wrong account or password"
		if h.Contact != "" {
			text += "; questions: " + h.Contact
		}
		return nil, &ftp.Error{Code: 530, Msg: text}
	}
	if errors.Is(err, account.ErrSuspended) {
		return nil, &ftp.Error{Code: 530, Msg: sentence(err)}
	}
	if err != nil {
		h.Log.ErrorContext(ctx, "ftp login failed", "account", user, "remote", remote.String(), "err", err)
		return nil, &ftp.Error{Code: 421, Msg: "Accounts cannot be checked now; try again later"}
	}
	if !a.May(account.ForFiles) {
		return nil, &ftp.Error{Code: 530, Msg: "This token is not good for files"}
	}
	return &session{ctx: context.WithoutCancel(ctx), handler: h, name: a.Name, account: h.Accounts.Follow(a.From(remote.String())), remote: remote.String()}, nil
}

// session is one connection of an account.
type session struct {
	handler
	ctx     context.Context // of the log-in, for the log; it does not end
	name    string
	account *account.Following
	remote  string
}

// goneText is told to clients whose account was deleted.
const goneText = "This account has been taken away"

// Revoke implements ftp.Revocable.
func (s *session) Revoke(hangUp func(*ftp.Error)) {
	s.account.Notify(func() { hangUp(&ftp.Error{Code: 421, Msg: goneText}) })
}

func (s *session) Stat(ctx context.Context, name string) (ftp.Entry, error) {
	account, err := s.account.Account()
	if err != nil {
		return ftp.Entry{}, answer(name, err)
	}
	n, err := s.Tree.Stat(ctx, account, name)
	return entry(n), answer(name, err)
}

func (s *session) List(ctx context.Context, name string) iter.Seq2[ftp.Entry, error] {
	return func(yield func(ftp.Entry, error) bool) {
		account, err := s.account.Account()
		if err != nil {
			yield(ftp.Entry{}, answer(name, err))
			return
		}
		for n, err := range s.Tree.List(ctx, account, name) {
			if !yield(entry(n), answer(name, err)) {
				return
			}
		}
	}
}

func entry(n library.Node) ftp.Entry {
	return ftp.Entry{
		Name: n.Name, Dir: n.Dir, Size: n.Size, Modified: n.Modified,
		Unique: strings.Trim(n.ETag, `"`), SHA256: n.SHA256,
	}
}

func (s *session) Open(ctx context.Context, name string, offset int64) (ftp.File, error) {
	account, err := s.account.Account()
	if err != nil {
		return nil, answer(name, err)
	}
	f, err := s.Tree.Open(ctx, account, name)
	if err != nil {
		return nil, answer(name, err)
	}
	if err := s.resumes.allow(s.name, path.Clean(name), f.Node, offset); err != nil {
		f.Close()
		return nil, err
	}
	file, err := open(ctx, f, offset)
	if err != nil {
		f.Close()
		return nil, answer(name, err)
	}
	return file, nil
}

func (s *session) Create(context.Context, string, int64) (ftp.Upload, error) {
	return nil, &ftp.Error{Code: 550, Msg: "Archives are read-only here"}
}

func (s *session) Transferred(done ftp.Transfer) {
	name := done.Path
	t := s.download(name, time.Now().Add(-done.Took))
	t.Bytes, t.Took, t.Acknowledged = done.Bytes, done.Took, done.Acknowledged
	if done.Err != nil {
		t.Outcome = transfers.Aborted
	}
	if err := s.Recorder.Record(s.ctx, t); err != nil {
		s.Log.ErrorContext(s.ctx, "download not recorded", "account", s.name, "path", name, "err", err)
	}
}

// Begun implements ftp.Watched.
func (s *session) Begun(begun ftp.Transfer, moved func() int64) (ended func()) {
	t := s.download(begun.Path, time.Now())
	t.Outcome, t.Acknowledged = "", begun.Acknowledged
	return s.Running.Begin(t, moved)
}

// download returns the record of a download that began at the given time.
func (s *session) download(name string, at time.Time) transfers.Transfer {
	return transfers.Transfer{
		At: at, Direction: transfers.Download, Protocol: "ftp", Who: s.name, Name: path.Clean(name),
		Outcome: transfers.OK, Remote: s.remote, Unknown: s.name == account.Anonymous,
	}
}

func (s *session) Close() error {
	s.account.Close()
	return nil
}

// answer returns the FTP reply for an error of the library. Other errors are returned as they are.
func answer(name string, err error) error {
	var closed *account.ClosedError
	var quota *account.QuotaError
	switch {
	case errors.Is(err, library.ErrNotFound):
		return &ftp.Error{Code: 550, Msg: path.Clean(name) + ": No such file or directory"}
	case errors.Is(err, library.ErrIsDirectory):
		return &ftp.Error{Code: 550, Msg: path.Clean(name) + ": Not a plain file"}
	case errors.As(err, &closed):
		return &ftp.Error{Code: 450, Msg: sentence(closed)}
	case errors.As(err, &quota):
		return &ftp.Error{Code: 450, Msg: sentence(quota)}
	case errors.Is(err, library.ErrNoSpace):
		return &ftp.Error{Code: 450, Msg: sentence(library.ErrNoSpace)}
	case errors.Is(err, account.ErrNoAccount):
		return &ftp.Error{Code: 421, Msg: goneText}
	}
	return err
}

// midway is answer during a transfer, when 450 is not allowed (RFC 959, section 5.4).
func midway(name string, err error) error {
	err = answer(name, err)
	if e, ok := err.(*ftp.Error); ok && e.Code == 450 {
		return &ftp.Error{Code: 451, Msg: e.Msg + "; what you have can be resumed then"}
	}
	return err
}

// sentence returns an error's text with a capital letter at its beginning.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}

// file is a download of a file from an offset to its end.
type file struct {
	of   *library.File
	ctx  context.Context
	left int64
	body io.ReadCloser // nil until the first Read
}

func open(ctx context.Context, f *library.File, offset int64) (ftp.File, error) {
	if offset < 0 || offset > f.Size {
		return nil, &ftp.Error{Code: 554, Msg: fmt.Sprintf("Restart at %d is beyond the file's %d bytes", offset, f.Size)}
	}
	return &file{of: f, ctx: ctx, left: f.Size - offset}, nil
}

func (d *file) Read(p []byte) (n int, err error) {
	if d.body == nil {
		if d.body, err = d.of.OpenRange(d.ctx, d.of.Size-d.left, d.left); err != nil {
			d.body = nil
			return 0, midway(d.of.Name, err)
		}
	}
	n, err = d.body.Read(p)
	d.left -= int64(n)
	return n, midway(d.of.Name, err)
}

// Extents implements ftp.Local.
func (d *file) Extents() (stream.Reader, error) {
	return d.of.Extents(d.of.Size-d.left, d.left)
}

// Pace implements ftp.Paced.
func (d *file) Pace(ctx context.Context, n int64) (int64, error) {
	n, err := d.of.Pace(ctx, n)
	return n, midway(d.of.Name, err)
}

// Remaining implements ftp.Sized.
func (d *file) Remaining() int64 { return d.left }

func (d *file) Close() error {
	if d.body == nil {
		return d.of.Close()
	}
	return errors.Join(d.body.Close(), d.of.Close())
}

// maxRemembered is how many downloads are remembered. They take some 20 MB.
const maxRemembered = 1 << 17

// resumes remembers which version of a file was sent to which account last. An FTP client cannot
// say which version its first bytes are of: REST and RETR could join the beginning of one archive
// to the end of another.
//
// It forgets all when the process ends. So it also refuses to resume a file that is not Fixed if it
// does not know which version was sent.
type resumes struct {
	sent *lru.Cache[download, string] // ETags
}

// download names an account, and a file from which it has received bytes.
type download struct{ account, path string }

func newResumes() *resumes {
	sent, _ := lru.New[download, string](maxRemembered) // fails only for sizes below one
	return &resumes{sent}
}

// allow notes that an account downloads a file from offset on, or returns why it may not.
func (r *resumes) allow(account, path string, n library.Node, offset int64) error {
	what := download{account, path}
	if offset > 0 {
		switch etag, known := r.sent.Get(what); {
		case known && etag != n.ETag:
			return &ftp.Error{Code: 554, Msg: path + " has changed since you fetched its beginning; fetch it anew, from byte 0"}
		case !known && !n.Fixed:
			return &ftp.Error{Code: 554, Msg: path + " changes, and it is not known here of which version your beginning is; fetch it anew, from byte 0"}
		}
	}
	r.sent.Add(what, n.ETag)
	return nil
}
