package manager

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gorilla/mux"

	"sheaf/internal/guesses"
	"sheaf/internal/problem"
	"sheaf/internal/wire"
)

// PathAddresses takes, by POST, the addresses at which a robot reached its hosts.
const PathAddresses = "/v1/robots/{robot}/addresses"

const (
	maxJSON      = 1 << 20
	maxList      = 4 << 20  // bytes of a list of found hosts
	maxListPlain = 16 << 20 // bytes that it may inflate to
)

// robotHandler answers a robot that has shown who it is.
type robotHandler func(w http.ResponseWriter, r *http.Request, robot string) error

func (m *Manager) plain(f func(http.ResponseWriter, *http.Request) error) http.Handler {
	return problem.Handler(m.log, f)
}

// authenticated lets a robot through with its own name and secret, and only where the
// name in the path or in ?host= is its own.
func (m *Manager) authenticated(f robotHandler) http.Handler {
	return m.plain(func(w http.ResponseWriter, r *http.Request) error {
		name, secret, ok := r.BasicAuth()
		err := ErrUnauthorized
		if ok {
			err = m.login(r, name, secret)
		}
		if errors.Is(err, ErrUnauthorized) {
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

// login is Authenticate for a request; it answers 429 where too many secrets from its address were wrong.
func (m *Manager) login(r *http.Request, name, secret string) error {
	try := guesses.Try{Realm: guesses.Robot, Name: name, Secret: secret, Remote: r.RemoteAddr}
	return m.guessed(r, try, ErrUnauthorized, func(ctx context.Context) error { return m.Authenticate(ctx, name, secret) })
}

// guessed calls check within the bounds for those who guess; an error that is wrong counts as a guess.
func (m *Manager) guessed(r *http.Request, try guesses.Try, wrong error, check func(context.Context) error) error {
	ok, err := m.opt.Guesses.Check(r.Context(), try, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if errors.Is(err, wrong) {
			return false, nil
		}
		return err == nil, err
	})
	var tooMany *guesses.TooMany
	switch {
	case errors.As(err, &tooMany):
		return tooMany.Problem()
	case err == nil && !ok:
		return wrong
	}
	return err
}

func (m *Manager) serveJoin(w http.ResponseWriter, r *http.Request) error {
	var req wire.JoinRequest
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	if len(req.PublicKey) != 32 || len(req.Version) > 128 || req.Token == "" {
		return problem.New(http.StatusBadRequest, "bad_join", "send the token, a public_key of 32 bytes (Ed25519, base64) and a version of at most 128 bytes")
	}
	var answer wire.JoinResponse
	try := guesses.Try{Realm: guesses.Join, Secret: req.Token, Remote: r.RemoteAddr}
	err := m.guessed(r, try, ErrToken, func(ctx context.Context) (err error) {
		answer, err = m.Join(ctx, req)
		return err
	})
	if errors.Is(err, ErrToken) {
		return problem.New(http.StatusForbidden, "token_invalid", err.Error())
	}
	if err != nil {
		return err
	}
	m.log.InfoContext(r.Context(), "robot joined", "robot", answer.Robot, "version", req.Version)
	w.Header().Set("Cache-Control", "no-store")
	return writeJSON(w, http.StatusOK, answer)
}

// serveList is P1.
func (m *Manager) serveList(w http.ResponseWriter, r *http.Request, robot string) error {
	shares := strings.Contains(r.Header.Get(wire.HeaderAccept), wire.AcceptShares)
	if err := m.understands(r.Context(), robot, shares); err != nil {
		return err
	}
	generation, err := listGeneration(r.Context(), m.db, robot)
	if err != nil {
		return err
	}
	if matches(r.Header.Get("If-None-Match"), listTag(robot, generation)) {
		listHeader(w, robot, generation)
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	generation, lines, err := m.List(r.Context(), robot)
	if err != nil {
		return err
	}
	var body bytes.Buffer
	if err := wire.WriteHostList(&body, slices.Values(inForm(lines, shares))); err != nil {
		return err
	}
	listHeader(w, robot, generation)
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	_, err = body.WriteTo(w)
	if err != nil {
		m.log.DebugContext(r.Context(), "list broken off", "robot", robot, "err", err)
	}
	return nil
}

func listHeader(w http.ResponseWriter, robot string, generation int64) {
	w.Header().Set("ETag", listTag(robot, generation))
	w.Header().Set("Cache-Control", "private, no-cache")
	w.Header().Set(wire.HeaderGeneration, strconv.FormatInt(generation, 10))
}

func listTag(robot string, generation int64) string {
	return fmt.Sprintf(`"%s-%d"`, robot, generation)
}

func matches(header, tag string) bool {
	for t := range strings.SplitSeq(header, ",") {
		if strings.TrimPrefix(strings.TrimSpace(t), "W/") == tag {
			return true
		}
	}
	return false
}

// serveRecord is P2. The list is taken whole or not at all.
func (m *Manager) serveRecord(w http.ResponseWriter, r *http.Request, robot string) error {
	var lines []wire.HostLine
	for l, err := range wire.ReadHostList(http.MaxBytesReader(w, r.Body, maxList), maxListPlain) {
		if err != nil {
			return bodyError("bad_list", err)
		}
		lines = append(lines, l)
	}
	report, err := m.Discover(r.Context(), robot, lines)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, report)
}

// bodyError tells the sender what is wrong with what it sent.
func bodyError(reason string, err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return problem.New(http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("more than %d bytes; send it in parts", tooLarge.Limit))
	case errors.Is(err, wire.ErrTooLarge):
		return problem.New(http.StatusRequestEntityTooLarge, "too_large", err.Error())
	default:
		return problem.New(http.StatusBadRequest, reason, err.Error())
	}
}

// serveSubmitLog is P3.
func (m *Manager) serveSubmitLog(w http.ResponseWriter, r *http.Request, robot string) error {
	report, err := m.SubmitLog(r.Context(), robot, http.MaxBytesReader(w, r.Body, maxLog))
	var bad badLog
	switch {
	case errors.As(err, &bad):
		return bodyError("bad_log", bad)
	case errors.Is(err, errLogReuse):
		return problem.New(http.StatusConflict, "log_reuse", err.Error())
	case err != nil:
		return err
	}
	return writeJSON(w, http.StatusOK, report)
}

// serveIsRestart is P4.
func (m *Manager) serveIsRestart(w http.ResponseWriter, r *http.Request, robot string) error {
	has := int64(-1)
	if s := r.Header.Get(wire.HeaderGeneration); s != "" {
		var err error
		if has, err = strconv.ParseInt(s, 10, 64); err != nil || has < 0 {
			return problem.New(http.StatusBadRequest, "bad_generation", fmt.Sprintf("%s %q is not the number that came with the list", wire.HeaderGeneration, s))
		}
	}
	due, err := m.restartDue(r.Context(), robot, has)
	if err != nil {
		return err
	}
	answer := "CONTINUE\n"
	if due {
		answer = "RESTART\n"
	}
	return writeText(w, answer)
}

// serveSubscribe is P5, joining in.
func (m *Manager) serveSubscribe(w http.ResponseWriter, r *http.Request, robot string) error {
	if err := m.Subscribe(r.Context(), robot); err != nil {
		return err
	}
	return writeText(w, "SUBSCRIBED\n")
}

// serveUnsubscribe is P5, leaving.
func (m *Manager) serveUnsubscribe(w http.ResponseWriter, r *http.Request, robot string) error {
	if err := m.Unsubscribe(r.Context(), robot); err != nil {
		return err
	}
	return writeText(w, "UNSUBSCRIBED\n")
}

// AddressReport is the body of POST /v1/robots/{robot}/addresses.
type AddressReport struct {
	Addresses map[string][]string `json:"addresses"` // by host
}

func (m *Manager) serveAddresses(w http.ResponseWriter, r *http.Request, robot string) error {
	var report AddressReport
	if err := readJSON(w, r, &report); err != nil {
		return err
	}
	if _, err := parseAddresses(report.Addresses); err != nil {
		return problem.New(http.StatusBadRequest, "bad_address", err.Error())
	}
	err := m.ReportAddresses(r.Context(), robot, report.Addresses)
	if errors.Is(err, errNotYours) {
		return problem.New(http.StatusForbidden, "host_not_assigned", err.Error())
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxJSON))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("data after its end")
		}
	}
	if err != nil {
		return bodyError("bad_json", fmt.Errorf("body: %w", err))
	}
	return nil
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
	return nil
}

func writeText(w http.ResponseWriter, s string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, err := io.WriteString(w, s)
	return err
}
