package guard

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	"sheaf/internal/stream"
	"sheaf/internal/transfers"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// Sender sends files to consumers and records the transfers. It may be used by many goroutines at
// once.
type Sender struct {
	Recorder transfers.Recorder
	Running  *transfers.Running // is told of downloads under way; may be nil
	Measures *stream.Follower
	Patience time.Duration // for the acknowledgement of the last bytes
	Redirect Redirect      // At 0: all files are sent by this process
	Log      *slog.Logger
}

// File sends an open file, and records the transfer under the file's name. Browsers save it under
// the name download, if that is not empty.
func (s *Sender) File(w http.ResponseWriter, r *http.Request, a *account.Account, f *library.File, name, download string) {
	if r.Method == http.MethodHead {
		Head(w, r, f.Node, download)
		return
	}
	describe(w.Header(), f.Node, download)
	if s.redirected(w, r, a, f, name) {
		return
	}
	BoundRanges(r)
	c := ofFile(r.Context(), f)
	defer c.Close()
	out := &Answer{ResponseWriter: w}
	d := s.begin(r, a, name, out)
	defer d.end(r, c) // also if the handler is aborted
	http.ServeContent(out, r, "", f.Modified, c)
}

// Head answers a HEAD request for a file, and records nothing.
func Head(w http.ResponseWriter, r *http.Request, n library.Node, download string) {
	describe(w.Header(), n, download)
	BoundRanges(r)
	http.ServeContent(w, r, "", n.Modified, &Content{Size: n.Size})
}

// describe sets the headers that describe a file. If download is not empty, browsers save the file
// under that name.
func describe(h http.Header, n library.Node, download string) {
	h.Set("ETag", n.ETag)
	h.Set("Content-Type", n.Type)
	h.Set("X-Content-Type-Options", "nosniff")
	if sum, err := hex.DecodeString(n.SHA256); err == nil && len(sum) > 0 {
		h.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum)+":")
	}
	if download != "" {
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": download}))
	}
}

// maxRanges is how many ranges one request may ask for.
const maxRanges = 64

// BoundRanges removes the Range header if it has more than maxRanges ranges, as RFC 9110 (14.2)
// allows. The whole file is then sent.
func BoundRanges(r *http.Request) {
	if strings.Count(r.Header.Get("Range"), ",") >= maxRanges {
		r.Header.Del("Range")
	}
}

// Record records an answer that was not measured, such as a page, under the request's path. It
// counts the bytes written. It ignores HEAD, and answers without status 200 or 206.
func (s *Sender) Record(r *http.Request, a *account.Account, start time.Time, w *Answer) {
	if !w.sent() || r.Method == http.MethodHead {
		return
	}
	t := note(r, a, r.URL.Path, start)
	t.Bytes, t.Took, t.Outcome = w.bytes.Load(), time.Since(start), transfers.OK
	if r.Context().Err() != nil {
		t.Outcome = transfers.Aborted
	}
	s.record(context.WithoutCancel(r.Context()), t)
}

// note begins the record of a transfer.
func note(r *http.Request, a *account.Account, name string, start time.Time) transfers.Transfer {
	return transfers.Transfer{At: start, Direction: transfers.Download, Protocol: "http", Who: a.Name, Name: name, Remote: r.RemoteAddr, Unknown: a.Name == account.Anonymous}
}

func (s *Sender) record(ctx context.Context, t transfers.Transfer) {
	if err := s.Recorder.Record(ctx, t); err != nil {
		s.Log.ErrorContext(ctx, "download not recorded", "account", t.Who, "path", t.Name, "err", err)
	}
}
