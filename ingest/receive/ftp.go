package receive

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"regexp"
	"strings"

	"sheaf/ingest/accept"
	"sheaf/ingest/inbox"
	"sheaf/internal/ftp"
	"sheaf/internal/passwords"
	"sheaf/internal/transfers"
	"sheaf/internal/wire"
)

// FTP returns the handler of the drop, in which each robot has one directory with its own files.
//
//	<batch>.tar.gz             is written, and resumed by REST or APPE; SIZE returns the bytes kept
//	<batch>.manifest           is written last and in one piece; 226 means that the batch is accepted
//	<name>.tar.gz              any other name, if files without manifest are allowed
//	<batch>.receipt            is read: the signed receipt
//	<batch>.<sha256>.receipt   is read: the receipt for the bytes with that digest
func (r *Receiver) FTP() ftp.Handler { return drop{r} }

type drop struct{ r *Receiver }

func (d drop) Login(ctx context.Context, user, password string, remote net.Addr) (ftp.Session, error) {
	ok, err := d.r.login(ctx, user, password, remote.String())
	var tooMany *passwords.TooMany
	switch {
	case errors.As(err, &tooMany):
		return nil, &ftp.Error{Code: 421, Msg: "T" + tooMany.Error()[1:] + "."}
	case err != nil:
		d.r.log.ErrorContext(ctx, "a robot's secret cannot be checked", "robot", user, "err", err)
		return nil, &ftp.Error{Code: 421, Msg: "Robots' secrets cannot be checked now; come again in a moment."}
	case !ok:
		return nil, &ftp.Error{Code: 530, Msg: "Wrong name or secret of a robot; robotd join gets both."}
	}
	return &dropSession{r: d.r, ctx: ctx, robot: user, remote: remote.String()}, nil
}

type dropSession struct {
	r      *Receiver
	ctx    context.Context // context of the connection; for the log of transfers
	robot  string
	remote string
	room   int64 // bytes announced by ALLO for the next upload
}

// Allocate records how large the next batch will be. Whether there is room is answered when its
// upload begins.
func (s *dropSession) Allocate(_ context.Context, bytes int64) error {
	s.room = bytes
	return nil
}

// Suffixes of the files in the drop.
const (
	batchSuffix    = ".tar.gz"
	manifestSuffix = ".manifest"
	receiptSuffix  = ".receipt"
)

// file is the meaning of a name in the drop.
type file struct {
	batch  wire.BatchID
	suffix string
	sha256 string // digest of the bytes whose receipt is asked for; empty: any
	name   string // name of a file without manifest that names no batch
}

// freeName matches names that a file without manifest may have.
var freeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.(tar\.gz|tgz)$`)

// parse returns the file that a path means. It returns an error for batches of other robots.
func (s *dropSession) parse(path string) (file, error) {
	name := strings.TrimPrefix(path, "/")
	for _, suffix := range []string{batchSuffix, manifestSuffix, receiptSuffix} {
		id, ok := strings.CutSuffix(name, suffix)
		sha256 := ""
		if suffix == receiptSuffix {
			id, sha256, _ = strings.Cut(id, ".")
		}
		if ok && wire.BatchID(id).Robot() == s.robot {
			return file{batch: wire.BatchID(id), suffix: suffix, sha256: sha256}, nil
		}
	}
	if id := strings.TrimSuffix(name, batchSuffix); s.r.opt.Quiet > 0 && freeName.MatchString(name) && !wire.BatchID(id).Valid() {
		return file{name: name, suffix: batchSuffix}, nil
	}
	return file{}, &ftp.Error{Code: 553, Msg: fmt.Sprintf("Name not allowed: put %s-<yyyymmddThhmmssZ>-<n>.tar.gz, then .manifest; get .receipt.", s.robot)}
}

func absent(path string) error { return &ftp.Error{Code: 550, Msg: path + ": no such file."} }

func (s *dropSession) Stat(ctx context.Context, path string) (ftp.Entry, error) {
	if path == "/" {
		return ftp.Entry{Name: "/", Dir: true, Writable: true}, nil
	}
	f, err := s.parse(path)
	if err != nil {
		return ftp.Entry{}, absent(path)
	}
	switch f.suffix {
	case batchSuffix:
		u, err := s.r.uploads.get(s.newStatus(f).upload())
		if err != nil {
			return ftp.Entry{}, absent(path)
		}
		st, err := u.settled()
		return entryOf(st), err
	case receiptSuffix:
		receipt, err := s.r.receipt(ctx, f.batch, f.sha256)
		if err != nil {
			return ftp.Entry{}, err
		}
		if receipt != nil {
			return ftp.Entry{Name: strings.TrimPrefix(path, "/"), Size: int64(len(receipt))}, nil
		}
	}
	return ftp.Entry{}, absent(path)
}

// entryOf returns the entry of an upload. A resume may begin at the entry's size.
func entryOf(st status) ftp.Entry {
	return ftp.Entry{Name: st.file(), Size: st.Offset, Modified: st.Touched, Writable: true}
}

// List yields the robot's incomplete uploads over FTP. It does not stop their writers.
func (s *dropSession) List(_ context.Context, path string) iter.Seq2[ftp.Entry, error] {
	return func(yield func(ftp.Entry, error) bool) {
		if path != "/" {
			yield(ftp.Entry{}, absent(path))
			return
		}
		for _, u := range s.r.uploads.of(s.robot, overFTP) {
			if !yield(entryOf(u.get()), nil) {
				return
			}
		}
	}
}

func (s *dropSession) Open(ctx context.Context, path string, offset int64) (ftp.File, error) {
	f, err := s.parse(path)
	if err != nil || f.suffix != receiptSuffix {
		return nil, &ftp.Error{Code: 550, Msg: path + ": only receipts can be read here."}
	}
	receipt, err := s.r.receipt(ctx, f.batch, f.sha256)
	if err != nil {
		return nil, err
	}
	if receipt == nil {
		return nil, absent(path)
	}
	return io.NopCloser(bytes.NewReader(receipt[min(offset, int64(len(receipt))):])), nil
}

func (s *dropSession) Create(ctx context.Context, path string, offset int64) (ftp.Upload, error) {
	f, err := s.parse(path)
	switch {
	case err != nil:
		return nil, err
	case f.suffix == batchSuffix:
		return s.createBatch(s.newStatus(f), offset)
	case f.suffix == manifestSuffix && offset == 0:
		return &manifestUpload{ctx: ctx, s: s, batch: f.batch}, nil
	case f.suffix == manifestSuffix:
		return nil, &ftp.Error{Code: 554, Msg: "A manifest is sent whole: STOR from the start."}
	}
	return nil, &ftp.Error{Code: 550, Msg: path + ": receipts are written by the service."}
}

// newStatus returns the status of a new upload of f.
func (s *dropSession) newStatus(f file) *status {
	return &status{Batch: f.batch, Name: f.name, Robot: s.robot, Protocol: overFTP, Size: -1}
}

func (s *dropSession) createBatch(st *status, offset int64) (ftp.Upload, error) {
	st.Room, s.room = s.room, 0
	u, err := s.r.uploads.get(st.upload())
	if err != nil || offset == 0 {
		if offset > 0 {
			return nil, &ftp.Error{Code: 554, Msg: "Nothing is kept of this batch: STOR from the start."}
		}
		u, err = s.r.uploads.create(*st)
	}
	if err != nil {
		return nil, s.ftpError(err)
	}
	if offset == ftp.Append {
		st, err := u.settled()
		if err != nil {
			return nil, s.ftpError(err)
		}
		offset = st.Offset
	}
	w, err := u.begin(offset)
	if err != nil {
		return nil, s.ftpError(err)
	}
	return &batchUpload{s, w}, nil
}

// Transferred records uploads of batches, but not of manifests.
func (s *dropSession) Transferred(done ftp.Transfer) {
	t, ok := s.upload(done.Direction, done.Path)
	if !ok {
		return
	}
	t.Bytes, t.Took, t.Outcome = done.Bytes, done.Took, transfers.OK
	if done.Err != nil {
		t.Outcome = transfers.Aborted
	}
	s.r.record(s.ctx, t)
}

// Begun implements ftp.Watched. It lists only uploads of batches.
func (s *dropSession) Begun(begun ftp.Transfer, moved func() int64) (ended func()) {
	t, ok := s.upload(begun.Direction, begun.Path)
	if !ok {
		return func() {}
	}
	return s.r.begun(t, moved)
}

// upload returns the record of a batch's upload. For other transfers ok is false.
func (s *dropSession) upload(direction ftp.Direction, path string) (t transfers.Transfer, ok bool) {
	f, err := s.parse(path)
	return transfers.Transfer{Protocol: overFTP, Who: s.robot, Name: cmp.Or(f.name, string(f.batch)), Remote: s.remote},
		err == nil && f.suffix == batchSuffix && direction == ftp.Uploaded
}

func (s *dropSession) Close() error { return nil }

// batchUpload writes a batch. It keeps the bytes that have come, however the transfer ends. Only
// the manifest tells whether they are the whole batch.
type batchUpload struct {
	s *dropSession
	w *writer
}

func (b *batchUpload) Write(p []byte) (int, error) {
	n, err := b.w.Write(p)
	return n, b.s.ftpError(err)
}

// SelfProving implements ftp.SelfProving: the manifest's digest, or the batch's own end, proves
// that a batch is whole.
func (b *batchUpload) SelfProving() {}

func (b *batchUpload) Commit() error { return b.s.ftpError(b.w.Close()) }

func (b *batchUpload) Abort(cause error) {
	if err := b.w.Close(); err != nil && !errors.Is(err, errTakenOver) {
		b.s.r.log.ErrorContext(b.s.ctx, "an aborted upload could not be kept to its last byte", "upload", b.w.u.name, "reason", cause, "err", err)
	}
}

// manifestUpload receives a manifest and, when it is whole, has the batch accepted.
type manifestUpload struct {
	ctx   context.Context
	s     *dropSession
	batch wire.BatchID
	data  bytes.Buffer
	leave func() // ends its turn among large manifests; nil: it is not large
}

func (m *manifestUpload) Write(p []byte) (int, error) {
	if m.data.Len()+len(p) > wire.MaxManifest {
		return 0, &ftp.Error{Code: 552, Msg: fmt.Sprintf("A manifest has at most %d bytes.", wire.MaxManifest)}
	}
	if m.leave == nil && m.data.Len()+len(p) > largeManifest {
		leave, err := m.s.r.large.enter(m.ctx, m.s.robot)
		if err != nil {
			return 0, m.s.ftpError(err)
		}
		m.leave = leave
	}
	return m.data.Write(p)
}

func (m *manifestUpload) end() {
	if m.leave != nil {
		m.leave()
		m.leave = nil
	}
}

// SelfProving implements ftp.SelfProving: a part of a manifest has no valid signature.
func (m *manifestUpload) SelfProving() {}

func (m *manifestUpload) Commit() error {
	defer m.end()
	_, _, err := m.s.r.accept(m.ctx, m.s.robot, overFTP, m.batch, m.data.Bytes())
	return m.s.ftpError(err)
}

func (m *manifestUpload) Abort(error) { m.end() }

// ftpError turns err into an FTP reply. It returns unknown errors unchanged.
func (s *dropSession) ftpError(err error) error {
	err = s.r.turnedAway(s.ctx, s.robot, err)
	var full *inbox.Full
	var cut *inbox.Incomplete
	var refusal *inbox.Refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &full) && full.Never:
		return &ftp.Error{Code: 552, Msg: string(wire.ReasonTooLarge) + ": " + full.Detail + "."}
	case errors.As(err, &full):
		return &ftp.Error{Code: 452, Msg: fmt.Sprintf("%s; again in %s s.", full.Detail, retryAfter(full))}
	case errors.As(err, &cut):
		return &ftp.Error{Code: 450, Msg: cut.Error() + "."}
	case errors.As(err, &refusal):
		return &ftp.Error{Code: 553, Msg: refusal.Error() + "."}
	case errors.Is(err, accept.ErrMalformed):
		return &ftp.Error{Code: 501, Msg: err.Error() + "."}
	case errors.Is(err, errTooSlow):
		return &ftp.Error{Code: 426, Msg: err.Error() + "."}
	case errors.Is(err, errOffset):
		return &ftp.Error{Code: 554, Msg: "REST is beyond what is kept; SIZE tells how much that is."}
	case errors.Is(err, errTakenOver), errors.Is(err, errNoUpload), errors.Is(err, errBusy):
		return &ftp.Error{Code: 450, Msg: err.Error() + "."}
	}
	return err
}
