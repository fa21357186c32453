package receive

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"
	"github.com/tus/tusd/v2/pkg/handler"

	"sheaf/ingest/accept"
	"sheaf/ingest/inbox"
	"sheaf/internal/loop"
	"sheaf/internal/passwords"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/wire"
)

// Signed is a document with its signature, as internal/wire writes it.
type Signed struct {
	Signed  string `json:"signed" doc:"JSON, as a string: a manifest or a receipt"`
	Ed25519 []byte `json:"ed25519" doc:"signature of these very bytes"`
}

// receiptQuery is the query of GET wire.PathReceipt.
type receiptQuery struct {
	SHA256 string `query:"sha256" doc:"of the batch"`
}

const pathUpload = wire.PathUploads + "{batch}"

// define defines an operation of robots. The audit log does not record it.
func define[In, Out any](method, path, summary string) route.Op[In, Out] {
	return route.New[In, Out](method, path, route.Robot, "", summary)
}

// Operations of robots: uploads by tus 1.0, manifests, receipts.
var (
	offered  = route.New[route.None, route.None]("OPTIONS", wire.PathUploads, route.Anybody, "", "What of tus 1.0 is offered").Under("robots")
	begin    = define[route.None, route.None]("POST", wire.PathUploads, "Begin an upload (tus 1.0)").Answering(http.StatusCreated, "").Also(http.StatusInsufficientStorage, route.Problem, "")
	look     = define[route.None, route.None]("HEAD", pathUpload, "How much of it is there").Answering(http.StatusOK, "")
	goOn     = define[route.None, route.None]("PATCH", pathUpload, "Bytes that follow").Takes("application/offset+octet-stream")
	giveUp   = define[route.None, route.None]("DELETE", pathUpload, "Give it up")
	complete = define[Signed, Signed]("PUT", wire.PathManifest, "The signed manifest, which completes the batch").Answering(http.StatusAccepted, "").Also(http.StatusOK, "application/json", "It was complete before")
	receipt  = define[receiptQuery, Signed]("GET", wire.PathReceipt, "The signed receipt: how far the batch has come")
)

// Register mounts the robots' operations. Each requires the robot's name and secret by HTTP Basic.
func (r *Receiver) Register(router *mux.Router) error {
	tus, err := newTus(r)
	if err != nil {
		return err
	}
	router.HandleFunc(offered.Path, tusOptions).Methods(offered.Method)
	of := func(batch func(*http.Request) wire.BatchID) route.Mount {
		return func(op *route.Route, h route.Handler) {
			router.Handle(op.Path, r.authorise(problem.Handler(r.log, h), batch)).Methods(op.Method)
		}
	}
	begin.Raw(of(batchInMetadata), r.tus(tus, tus.PostFile))
	look.Raw(of(batchInPath), r.tus(tus, tus.HeadFile))
	goOn.Raw(of(batchInPath), r.tus(tus, tus.PatchFile))
	giveUp.Raw(of(batchInPath), r.tus(tus, tus.DelFile))
	complete.Raw(of(batchInPath), r.putManifest)
	receipt.Raw(of(batchInPath), r.getReceipt)
	return nil
}

// Routes returns the operations, for the API description.
func Routes() []*route.Route {
	return []*route.Route{offered.Route, begin.Route, look.Route, goOn.Route, giveUp.Route, complete.Route, receipt.Route}
}

func tusOptions(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Tus-Resumable", "1.0.0")
	h.Set("Tus-Version", "1.0.0")
	h.Set("Tus-Extension", tusExtensions)
	w.WriteHeader(http.StatusNoContent)
}

// tus wraps one of tusd's handlers. Its errors become problem+json. Bytes in the request that
// creates an upload are not read, because that extension is not offered.
func (r *Receiver) tus(tus *handler.UnroutedHandler, h http.HandlerFunc) route.Handler {
	inner := http.StripPrefix(wire.PathUploads, tus.Middleware(h)) // leaves the upload's ID
	return func(w http.ResponseWriter, req *http.Request) error {
		if req.Method == http.MethodPost {
			req.Header.Del("Content-Type")
			req.Header.Del("X-HTTP-Method-Override")
		}
		for _, draft := range []string{"Upload-Draft-Interop-Version", "Upload-Complete", "Upload-Incomplete"} {
			req.Header.Del(draft) // tus 1.0 only
		}
		pw := &problemWriter{ResponseWriter: w, head: req.Method == http.MethodHead}
		ctx, end := loop.Until(req.Context(), r.opt.Stopping, handler.ErrServerShutdown) // by which tusd reads no further
		defer end()
		inner.ServeHTTP(pw, req.WithContext(ctx))
		pw.problem("")
		return nil
	}
}

// cutReason splits tusd's "CODE: text". ok is false for internal errors and for other texts.
func cutReason(text string) (reason, detail string, ok bool) {
	reason, detail, ok = strings.Cut(strings.TrimSpace(text), ": ")
	if !ok || strings.HasPrefix(reason, "ERR_INTERNAL") {
		return "internal", text, false
	}
	return strings.ToLower(strings.TrimPrefix(reason, "ERR_")), detail, true
}

// batchInPath and batchInMetadata return the batch of a request.
func batchInPath(req *http.Request) wire.BatchID { return wire.BatchID(mux.Vars(req)["batch"]) }

func batchInMetadata(req *http.Request) wire.BatchID {
	return wire.BatchID(handler.ParseMetadataHeader(req.Header.Get("Upload-Metadata"))["batch"])
}

// authorise calls next if a robot's secret is right and its request concerns one of its own
// batches.
func (r *Receiver) authorise(next http.Handler, batch func(*http.Request) wire.BatchID) http.Handler {
	return problem.Handler(r.log, func(w http.ResponseWriter, req *http.Request) error {
		robot, secret, ok := req.BasicAuth()
		detail := "robots show their name and secret; `robotd join` gets both"
		if ok {
			var err error
			ok, err = r.login(req.Context(), robot, secret, req.RemoteAddr)
			var tooMany *passwords.TooMany
			switch {
			case errors.As(err, &tooMany):
				return tooMany
			case err != nil:
				r.log.ErrorContext(req.Context(), "a robot's secret cannot be checked", "robot", robot, "err", err)
				p := problem.New(http.StatusServiceUnavailable, "robots_away", "robots' secrets cannot be checked now; come again in a moment")
				p.Next = time.Now().Add(time.Minute).UTC().Format(time.RFC3339)
				return p
			}
			detail = "the robot's name or secret is wrong, or the robot was revoked; `robotd join` gets new ones"
		}
		if !ok {
			w.Header().Set("WWW-Authenticate", `Basic realm="sheaf robots"`)
			return problem.New(http.StatusUnauthorized, "unauthorized", detail)
		}
		id := batch(req)
		switch owner := id.Robot(); {
		case owner == "":
			return problem.New(http.StatusBadRequest, "bad_batch", "batch "+strconv.Quote(string(id))+" is not <robot>-<yyyymmddThhmmssZ>-<n>; an upload names it in the metadata key \"batch\"")
		case owner != robot:
			return problem.New(http.StatusForbidden, "not_yours", "batch "+string(id)+" is not robot "+robot+"'s")
		}
		ctx := context.WithValue(req.Context(), callerKey{}, caller{robot, req.RemoteAddr})
		next.ServeHTTP(w, req.WithContext(ctx))
		return nil
	})
}

// putManifest accepts a batch with its signed manifest. It answers 202 with the receipt, or 200 if
// the batch was accepted before.
func (r *Receiver) putManifest(w http.ResponseWriter, req *http.Request) error {
	robot := callerOf(req.Context()).robot
	if req.ContentLength < 0 || req.ContentLength > largeManifest {
		leave, err := r.large.enter(req.Context(), robot)
		if err = r.turnedAway(req.Context(), robot, err); errors.Is(err, errBusy) {
			w.Header().Set("Retry-After", "60")
			return problem.New(http.StatusTooManyRequests, "busy", err.Error())
		}
		if err != nil {
			return err
		}
		defer leave()
	}
	signed, err := io.ReadAll(http.MaxBytesReader(w, req.Body, wire.MaxManifest))
	if err != nil {
		return err
	}
	receipt, fresh, err := r.accept(req.Context(), robot, overHTTP, batchInPath(req), signed)
	var full *inbox.Full
	if err = r.turnedAway(req.Context(), robot, err); errors.As(err, &full) {
		w.Header().Set("Retry-After", retryAfter(full))
		return problem.New(statusOf(full), "no_space", full.Detail)
	}
	if err != nil {
		return refusalProblem(err)
	}
	status := http.StatusOK
	if fresh {
		status = http.StatusAccepted
	}
	return writeReceipt(w, status, receipt)
}

// refusalProblem returns the HTTP answer to a manifest that was not accepted.
func refusalProblem(err error) error {
	var cut *inbox.Incomplete
	var refusal *inbox.Refusal
	switch {
	case errors.As(err, &cut):
		return problem.New(http.StatusConflict, "incomplete", cut.Error())
	case errors.As(err, &refusal) && refusal.Reason == wire.ReasonIDReuse:
		return problem.New(http.StatusConflict, string(refusal.Reason), refusal.Detail)
	case errors.As(err, &refusal):
		return problem.New(http.StatusUnprocessableEntity, string(refusal.Reason), refusal.Detail)
	case errors.Is(err, accept.ErrMalformed):
		return problem.New(http.StatusBadRequest, "bad_manifest", err.Error())
	}
	return err
}

func (r *Receiver) getReceipt(w http.ResponseWriter, req *http.Request) error {
	id := batchInPath(req)
	receipt, err := r.receipt(req.Context(), id, req.URL.Query().Get("sha256"))
	if err != nil {
		return err
	}
	if receipt == nil {
		return problem.New(http.StatusNotFound, "not_accepted", "batch "+string(id)+" was not accepted; upload it, then its manifest")
	}
	return writeReceipt(w, http.StatusOK, receipt)
}

func writeReceipt(w http.ResponseWriter, status int, receipt []byte) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(receipt) // if the robot has gone, it will ask again
	return nil
}
