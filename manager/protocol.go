package manager

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gorilla/mux"

	"sheaf/internal/audit"
	"sheaf/internal/passwords"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
	"sheaf/manager/hosts"
	"sheaf/manager/levelling"
	"sheaf/manager/roster"
)

const (
	maxList      = 4 << 20  // bytes of a list of found hosts
	maxListPlain = 16 << 20 // bytes of the inflated list
)

// handler answers a request. If it returns an error, the error says how to answer.
type handler = func(http.ResponseWriter, *http.Request) error

// robotHandler answers an authenticated robot.
type robotHandler func(w http.ResponseWriter, r *http.Request, robot string) error

func (m *Manager) plain(f handler) http.Handler { return problem.Handler(m.opt.Log, f) }

// authenticated calls f if the request has the name and secret of a robot. A robot name in the path
// or in ?host= must be the same.
func (m *Manager) authenticated(f robotHandler) http.Handler {
	return m.plain(func(w http.ResponseWriter, r *http.Request) error {
		name, secret, ok := r.BasicAuth()
		err := roster.ErrUnauthorized
		if ok {
			err = m.login(r, name, secret)
		}
		if errors.Is(err, roster.ErrUnauthorized) {
			w.Header().Set("WWW-Authenticate", `Basic realm="sheaf robots"`)
			detail := "send the robot's name and secret by HTTP Basic; robotd join URL TOKEN gets them"
			if ok {
				detail = "the name or the secret is wrong, or the robot was revoked; robotd join URL TOKEN gets new ones"
			}
			return problem.New(http.StatusUnauthorized, "unauthorized", detail)
		}
		if err != nil {
			return err
		}
		for _, asked := range []string{mux.Vars(r)["robot"], r.URL.Query().Get("host")} {
			if asked != "" && asked != name {
				return problem.New(http.StatusForbidden, "not_yours", fmt.Sprintf("the credentials are %s's, the request is for %q", name, asked))
			}
		}
		return f(w, r, name)
	})
}

// alone answers each robot only one request of a kind at a time, because such requests cost much
// work. A second request meanwhile gets a 429.
func (m *Manager) alone(f robotHandler) robotHandler {
	var busy sync.Map // the robots that are being answered
	return func(w http.ResponseWriter, r *http.Request, robot string) error {
		if _, is := busy.LoadOrStore(robot, true); is {
			w.Header().Set("Retry-After", "60")
			why := "another request of this kind by robot " + robot + " is being answered; send one after the other"
			m.Refused(r.Context(), robot, why)
			return problem.New(http.StatusTooManyRequests, "busy", why)
		}
		defer busy.Delete(robot)
		return f(w, r, robot)
	}
}

// recorded calls f and writes to the audit log what the robot did.
func (m *Manager) recorded(what string, f robotHandler) robotHandler {
	return func(w http.ResponseWriter, r *http.Request, robot string) error {
		h := m.opt.Audit.Handler(audit.Change, m.plain(func(w http.ResponseWriter, r *http.Request) error {
			audit.Note(r.Context(), audit.Row{Object: "robot " + robot, Reason: what})
			return f(w, r, robot)
		}))
		h.ServeHTTP(w, r.WithContext(audit.WithActor(r.Context(), audit.Robot, robot)))
		return nil
	}
}

// login authenticates a robot. The error is a 429 if too many wrong secrets came from the address.
func (m *Manager) login(r *http.Request, name, secret string) error {
	try := passwords.Try{Realm: passwords.Robot, Name: name, Secret: secret, Remote: r.RemoteAddr}
	return m.guessed(r, try, roster.ErrUnauthorized, func(ctx context.Context) error { return m.Authenticate(ctx, name, secret) })
}

// guessed calls check, unless there were too many guesses. If check returns the error wrong, that
// counts as a guess.
func (m *Manager) guessed(r *http.Request, try passwords.Try, wrong error, check func(context.Context) error) error {
	ok, err := m.opt.Guesses.Check(r.Context(), try, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if errors.Is(err, wrong) {
			return false, nil
		}
		return err == nil, err
	})
	var tooMany *passwords.TooMany
	switch {
	case errors.As(err, &tooMany):
		return tooMany
	case err == nil && !ok:
		return wrong
	}
	return err
}

func (m *Manager) serveJoin(w http.ResponseWriter, r *http.Request) error {
	req, err := join.Read(w, r)
	if err != nil {
		return err
	}
	if len(req.PublicKey) != 32 || len(req.Version) > wire.MaxVersion || req.Token == "" {
		return problem.New(http.StatusBadRequest, "bad_join", "send the token, a public_key of 32 bytes (Ed25519, base64) and a version of at most 128 bytes")
	}
	var answer wire.JoinResponse
	try := passwords.Try{Realm: passwords.Join, Secret: req.Token, Remote: r.RemoteAddr}
	err = m.guessed(r, try, roster.ErrToken, func(ctx context.Context) (err error) {
		answer, err = m.Roster.Join(ctx, req)
		return err
	})
	if errors.Is(err, roster.ErrToken) {
		return problem.New(http.StatusForbidden, "token_invalid", err.Error())
	}
	if err != nil {
		return err
	}
	m.opt.Log.InfoContext(r.Context(), "robot joined", "robot", answer.Robot, "program_version", req.Version)
	w.Header().Set("Cache-Control", "no-store")
	return problem.JSON(w, http.StatusOK, answer)
}

// serveList answers P1: the robot's list, if it has changed.
func (m *Manager) serveList(w http.ResponseWriter, r *http.Request, robot string) error {
	additions := r.Header.Get(wire.HeaderAccept) == wire.AcceptAdditions
	if err := m.Assignments.SetShares(r.Context(), robot, additions); err != nil {
		return err
	}
	has := r.Header.Get("If-None-Match")
	if generation, ok := assign.TagGeneration(robot, has); ok {
		if err := m.Assignments.Confirm(r.Context(), robot, generation); err != nil {
			return err
		}
	}
	generation, err := m.Assignments.ListGeneration(r.Context(), robot)
	if err != nil {
		return err
	}
	if matches(has, assign.ListTag(robot, generation)) {
		lease, err := m.Assignments.Renew(r.Context(), robot, generation)
		if err != nil {
			return err
		}
		listHeader(w, robot, generation, lease)
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return m.sendList(w, r, robot, additions)
}

// sendList sends the robot its list, in Sheaf's form with additions or in the paper's form.
func (m *Manager) sendList(w http.ResponseWriter, r *http.Request, robot string, additions bool) error {
	var generation int64
	var lines []wire.HostLine
	var lease wire.Lease
	for !lease.Renewed { // false if the list has just changed
		var err error
		if generation, lines, err = m.Assignments.List(r.Context(), robot); err != nil {
			return err
		}
		if lease, err = m.Assignments.Renew(r.Context(), robot, generation); err != nil {
			return err
		}
	}
	if !additions {
		lines = plain(lines)
		// The robot begins its hosts anew. The hand-overs do not contain what it does from now on.
		if err := m.Assignments.DropHandovers(r.Context(), robot); err != nil {
			return err
		}
	}
	var body bytes.Buffer
	if err := wire.WriteHostList(&body, slices.Values(lines)); err != nil {
		return err
	}
	listHeader(w, robot, generation, lease)
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	if _, err := body.WriteTo(w); err != nil {
		m.opt.Log.DebugContext(r.Context(), "robot broke off the download of its list", "robot", robot, "err", err)
	}
	return nil
}

func listHeader(w http.ResponseWriter, robot string, generation int64, lease wire.Lease) {
	if lease.Renewed {
		w.Header().Set(wire.HeaderLease, lease.String())
	}
	w.Header().Set("ETag", assign.ListTag(robot, generation))
	w.Header().Set("Cache-Control", "private, no-cache")
	w.Header().Set(wire.HeaderGeneration, strconv.FormatInt(generation, 10))
}

// plain returns the lines in the paper's form. It leaves out hosts that the robot must visit only
// in part, or not yet.
func plain(lines []wire.HostLine) []wire.HostLine {
	lines = slices.DeleteFunc(lines, func(l wire.HostLine) bool { return l.Wait || l.Share.Split && l.Share.Several() })
	for i, l := range lines {
		lines[i] = wire.HostLine{URL: l.URL, Referer: l.Referer}
	}
	return slices.Compact(lines) // a URL has a line for each path that is left out
}

// matches reports whether an If-None-Match header names the entity tag.
func matches(header, tag string) bool {
	for t := range strings.SplitSeq(header, ",") {
		if strings.TrimPrefix(strings.TrimSpace(t), "W/") == tag {
			return true
		}
	}
	return false
}

// serveRecord answers P2: hosts that the robot has found. It accepts the whole list or nothing.
func (m *Manager) serveRecord(w http.ResponseWriter, r *http.Request, robot string) error {
	var lines []wire.HostLine
	for l, err := range wire.ReadHostList(http.MaxBytesReader(w, r.Body, maxList), maxListPlain) {
		if err != nil {
			return bodyError("bad_list", err)
		}
		lines = append(lines, l)
	}
	report, err := m.Hosts.Discover(r.Context(), robot, lines)
	if err != nil {
		return err
	}
	if report.Over > 0 {
		m.Refused(r.Context(), robot, fmt.Sprintf("%d hosts that it found are not entered: it, or all robots together, have entered as many in a day as they may", report.Over))
	}
	return problem.JSON(w, http.StatusOK, report)
}

// serveSubmitLog answers P3: the log of a cycle.
func (m *Manager) serveSubmitLog(w http.ResponseWriter, r *http.Request, robot string) error {
	report, err := m.Costs.SubmitLog(r.Context(), robot, http.MaxBytesReader(w, r.Body, levelling.MaxLog))
	var bad assign.Invalid
	switch {
	case errors.As(err, &bad):
		return bodyError("bad_log", bad)
	case errors.Is(err, levelling.ErrLogReuse):
		return problem.New(http.StatusConflict, "log_reuse", err.Error())
	case err != nil:
		return err
	}
	return problem.JSON(w, http.StatusOK, report)
}

// serveIsRestart answers P4: whether the robot is to fetch its list anew.
func (m *Manager) serveIsRestart(w http.ResponseWriter, r *http.Request, robot string) error {
	has := int64(-1)
	if s := r.Header.Get(wire.HeaderGeneration); s != "" {
		var err error
		if has, err = strconv.ParseInt(s, 10, 64); err != nil || has < 0 {
			return problem.New(http.StatusBadRequest, "bad_generation", fmt.Sprintf("%s %q is not the number that came with the list", wire.HeaderGeneration, s))
		}
	}
	due, err := m.Roster.RestartDue(r.Context(), robot, has)
	if err != nil {
		return err
	}
	answer := "CONTINUE\n"
	if due {
		answer = "RESTART\n"
	}
	return writeText(w, answer)
}

// serveSubscribe answers P5: the robot takes part.
func (m *Manager) serveSubscribe(w http.ResponseWriter, r *http.Request, robot string) error {
	if err := m.Roster.Subscribe(r.Context(), robot); err != nil {
		return err
	}
	return writeText(w, "SUBSCRIBED\n")
}

// serveUnsubscribe answers P5: the robot no longer takes part.
func (m *Manager) serveUnsubscribe(w http.ResponseWriter, r *http.Request, robot string) error {
	if err := m.Roster.Unsubscribe(r.Context(), robot); err != nil {
		return err
	}
	return writeText(w, "UNSUBSCRIBED\n")
}

func (m *Manager) takeAddresses(ctx context.Context, report wire.AddressReport) error {
	err := m.Hosts.ReportAddresses(ctx, robotOf(ctx), report.Addresses)
	var invalid assign.Invalid
	switch {
	case errors.As(err, &invalid):
		return problem.New(http.StatusBadRequest, "bad_address", err.Error())
	case errors.Is(err, hosts.ErrNotAssigned):
		return problem.New(http.StatusForbidden, "host_not_assigned", err.Error())
	}
	return err
}

// serveWatches answers with the pages that consumers watch at the robot's hosts.
func (m *Manager) serveWatches(w http.ResponseWriter, r *http.Request, robot string) error {
	list, err := m.Hosts.Watches(r.Context(), robot)
	if err != nil {
		return err
	}
	body, err := json.Marshal(list)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "private, no-cache")
	if matches(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err = w.Write(body); err != nil {
		m.opt.Log.DebugContext(r.Context(), "robot broke off the download of its watches", "robot", robot, "err", err)
	}
	return nil
}

// serviceKeys returns the statements that lead from a service key that the robot knows to the
// newest one.
func (m *Manager) serviceKeys(ctx context.Context, q keyQuery) (chain wire.KeyChain, err error) {
	key, err := hex.DecodeString(q.Key)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return chain, problem.New(http.StatusBadRequest, "bad_key", "key is the newest of the service's keys that the robot knows: 64 hexadecimal digits")
	}
	statements, err := m.Roster.ServiceKeys(ctx, robotOf(ctx), key)
	route.Header(ctx).Set("Cache-Control", "no-store")
	return wire.KeyChain{Statements: append([]wire.KeyStatement{}, statements...)}, adminError(err)
}

// takeHandover receives a robot's hand-over of a host and keeps it for the host's next robot.
func (m *Manager) takeHandover(w http.ResponseWriter, r *http.Request, robot string) error {
	key, err := m.RobotKey(r.Context(), robot)
	if err != nil && !errors.Is(err, roster.ErrUnknownRobot) {
		return err
	}
	h, body, err := wire.OpenHandover(http.MaxBytesReader(w, r.Body, wire.MaxHandover), key)
	switch {
	case errors.Is(err, wire.ErrSignature):
		return problem.New(http.StatusForbidden, "bad_signature", err.Error())
	case err != nil:
		return bodyError("bad_handover", err)
	case h.Robot != robot || h.To != "":
		return problem.New(http.StatusForbidden, "not_yours", fmt.Sprintf("the hand-over is %s's for %q, and %s sends it", h.Robot, h.To, robot))
	}
	err = m.Assignments.PutHandover(r.Context(), h, body)
	var wrong *assign.WrongBodyError
	switch {
	case errors.Is(err, assign.ErrNotWanted):
		return problem.New(http.StatusConflict, "not_wanted", err.Error())
	case errors.As(err, &wrong):
		return bodyError("bad_handover", err)
	}
	if err == nil {
		m.opt.Log.InfoContext(r.Context(), "host handed over", "host", h.Host, "robot", robot, "bytes", h.Size)
	}
	return noContent(w, err)
}

// giveHandover sends a robot the hand-over of one of its hosts, signed by the service.
func (m *Manager) giveHandover(w http.ResponseWriter, r *http.Request, robot string) error {
	h, body, err := m.Assignments.Handover(r.Context(), robot, mux.Vars(r)["id"])
	if errors.Is(err, assign.ErrUnknownHost) {
		return problem.New(http.StatusNotFound, "unknown_handover", "there is no such hand-over of a host that this robot may visit now")
	}
	if err != nil {
		return err
	}
	h.To = robot
	key, err := m.opt.Key.Signing(r.Context())
	if err != nil {
		return err
	}
	head, err := h.File(h.Size, h.SHA256, key.Private)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(int64(len(head))+h.Size, 10))
	w.Header().Set("Cache-Control", "no-store")
	if _, err := io.Copy(w, io.MultiReader(bytes.NewReader(head), body)); err != nil {
		m.opt.Log.DebugContext(r.Context(), "download of a hand-over broken off", "robot", robot, "err", err)
	}
	return nil
}
