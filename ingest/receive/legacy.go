package receive

import (
	"context"
	"errors"
	"os"
	"time"

	"sheaf/ingest/accept"
	"sheaf/ingest/verify"
	"sheaf/internal/wire"
)

// Robots of old put a file by FTP and nothing more. That it is whole nothing says
// but the file itself: when it has stood still for long enough it is read to its end,
// and taken where that is the end of a batch. An upload that a manifest still comes
// for is then one like any other, for its batch has the same ID and the same digest.

// takeQuiet looks at every file that has stood still for long enough.
func (r *Receiver) takeQuiet(ctx context.Context) {
	for _, u := range r.uploads.all() {
		if err := r.lookAt(ctx, u); err != nil && ctx.Err() == nil {
			r.log.Error("a file without manifest could not be looked at; it will be again", "upload", u.name, "err", err)
		}
	}
}

// lookAt takes a file, puts it aside, or leaves it to grow.
func (r *Receiver) lookAt(ctx context.Context, u *upload) (err error) {
	st, walked, err := u.quiet(r.opt.Quiet)
	if st == nil || err != nil {
		return err
	}
	// Of a batch's name the robot may go on after any break, as it does with a manifest
	// to come; of any other nobody has said so.
	patient := st.Name == "" || time.Since(st.Touched) < r.opt.CutOff
	if walked.Equal(st.Touched) && patient {
		return nil // cut off, as it was the last time
	}
	up := accept.Upload{Batch: st.Batch, Robot: st.Robot, Protocol: st.Protocol, Path: u.path()}
	found, err := r.opt.Batches.Infer(ctx, up) // without the mutex: it may take minutes
	var fault *verify.Refusal
	if err != nil && !errors.As(err, &fault) {
		return err
	}
	if found != nil {
		defer func() { err = errors.Join(err, found.Drop()) }()
	}

	u.mu.Lock()
	defer u.mu.Unlock()
	if known, err := r.uploads.get(u.name); err != nil || known != u || u.writer != nil || u.status != *st {
		return nil // it was gone on with meanwhile
	}
	if fault == nil {
		take := up
		take.Path = found.Path
		if _, err = r.opt.Batches.AcceptInferred(ctx, take, found.Manifest); err != nil && !errors.As(err, &fault) {
			return err
		}
	}
	if fault != nil {
		u.walked = st.Touched
		if fault.Reason == wire.ReasonTruncated && patient {
			r.log.Info("a file without manifest is not whole yet", "upload", u.name, "bytes", st.Offset, "detail", fault.Detail)
			return nil
		}
		if err := r.opt.Batches.QuarantineFile(ctx, up, fault); err != nil {
			return err
		}
	}
	return r.uploads.forget(u)
}

// quiet gives the status of a file that came by FTP, that nobody writes, and that has not
// grown for the given time, and which state of it was read last; nil where it is not
// one. What lies behind the bytes that count is cut off first.
func (u *upload) quiet(since time.Duration) (st *status, walked time.Time, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.status
	if u.writer != nil || now.Protocol != overFTP || now.Offset == 0 || time.Since(now.Touched) < since {
		return nil, time.Time{}, nil
	}
	if known, err := u.uploads.get(u.name); err != nil || known != u {
		return nil, time.Time{}, nil
	}
	info, err := os.Stat(u.path())
	if err == nil && info.Size() > now.Offset {
		err = os.Truncate(u.path(), now.Offset)
	}
	return &now, u.walked, err
}
