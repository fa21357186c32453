package receive

import (
	"context"
	"errors"
	"os"
	"time"

	"sheaf/ingest/accept"
	"sheaf/ingest/inbox"
	"sheaf/internal/wire"
)

// Old robots put a file by FTP without a manifest. Only the file itself says whether it is whole.
// If it has not grown for Options.Quiet, it is read to its end, and accepted if a batch ends there.
// If a manifest comes later, it belongs to an accepted batch with the same ID and digest.

// acceptQuiet calls acceptManifestless for every upload, and logs errors.
func (r *Receiver) acceptQuiet(ctx context.Context) {
	for _, u := range r.uploads.all() {
		if err := r.acceptManifestless(ctx, u); err != nil && ctx.Err() == nil {
			r.log.ErrorContext(ctx, "a file without manifest cannot be read; it will be tried again", "upload", u.name, "err", err)
		}
	}
}

// acceptManifestless accepts a file without manifest, quarantines it, or leaves it if it may still
// grow.
func (r *Receiver) acceptManifestless(ctx context.Context, u *upload) (err error) {
	st, inferred, err := u.quiet(r.opt.Quiet)
	if st == nil || err != nil {
		return err
	}
	// If a file has a batch's name, its robot may continue it after any break, or send its
	// manifest. That is not true of other files.
	mayGrow := st.Name == "" || time.Since(st.Touched) < r.opt.CutOff
	if inferred.Equal(st.Touched) && mayGrow {
		return nil // it was incomplete the last time and is unchanged
	}
	up := accept.Upload{Batch: st.Batch, Robot: st.Robot, Protocol: st.Protocol, Path: u.path()}
	found, err := r.opt.Batches.Infer(ctx, up) // takes minutes, so the mutex is not held
	var fault *inbox.Refusal
	if err != nil && !errors.As(err, &fault) {
		return err
	}
	if found != nil {
		defer func() { err = errors.Join(err, found.Drop()) }()
	}

	u.mu.Lock()
	defer u.mu.Unlock()
	if u.gone() || u.writer != nil || u.status != *st {
		return nil // it was continued meanwhile
	}
	if fault == nil {
		batch := up
		batch.Path = found.Path
		if _, err = r.opt.Batches.AcceptInferred(ctx, batch, found.Manifest); err != nil && !errors.As(err, &fault) {
			return err
		}
	}
	if fault != nil {
		u.inferred = st.Touched
		if fault.Reason == wire.ReasonTruncated && mayGrow {
			r.log.InfoContext(ctx, "a file without manifest is not whole yet", "upload", u.name, "bytes", st.Offset, "detail", fault.Detail)
			return nil
		}
		if err := r.opt.Batches.QuarantineFile(ctx, up, fault); err != nil {
			return err
		}
	}
	return r.uploads.remove(u)
}

// quiet returns the upload's status if it came by FTP, nobody writes it, and it has not grown for
// the given time; otherwise nil. It cuts off bytes of the file that do not count. inferred is
// status.Touched when the file was last read.
func (u *upload) quiet(since time.Duration) (st *status, inferred time.Time, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.status
	if u.gone() || u.writer != nil || now.Protocol != overFTP || now.Offset == 0 || time.Since(now.Touched) < since {
		return nil, time.Time{}, nil
	}
	info, err := os.Stat(u.path())
	if err == nil && info.Size() > now.Offset {
		err = os.Truncate(u.path(), now.Offset)
	}
	return &now, u.inferred, err
}
