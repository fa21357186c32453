package manager

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"sheaf/deploy"
	"sheaf/internal/problem"
	"sheaf/internal/release"
	"sheaf/internal/wire"
	"sheaf/manager/rollout"
)

// PathAdminReleases is the operators' path of releases.
const PathAdminReleases = "/v1/admin/releases"

// maxProgram bounds a program that operators send, in bytes.
const maxProgram = 1 << 30

// ReleaseKeyRequest is the body of PUT /v1/admin/releases/key.
type ReleaseKeyRequest struct {
	Key     string `json:"key"`     // minisign's public key
	Replace bool   `json:"replace"` // another that is there
}

// ReleaseKeyResponse answers it, and GET.
type ReleaseKeyResponse struct {
	Key string `json:"key"`
}

// PublishRequest is the body of POST /v1/admin/releases. The programs were sent before.
type PublishRequest struct {
	wire.Offer
	Soak rollout.Seconds `json:"soak"` // that each stage lasts at least
}

// ReleasesResponse answers GET /v1/admin/releases.
type ReleasesResponse struct {
	Releases []rollout.Release `json:"releases"`
}

// RolloutRequest is the body of POST /v1/admin/releases/{counter}/rollout.
type RolloutRequest struct {
	Percent int    `json:"percent"`
	Stopped string `json:"stopped,omitempty"` // why; empty: it goes on
}

// Installable is what a robot's install command pins: the script's digest and the
// newest release that every robot may have.
type Installable struct {
	Script  string `json:"script"`            // SHA-256 of /install.sh
	Counter int64  `json:"counter,omitempty"` // 0: nothing is released yet
	Release string `json:"release,omitempty"` // SHA-256 of its text
	Missing string `json:"missing,omitempty"` // where Counter is 0: the operators' command that there must be first
}

func (m *Manager) registerReleases(r *mux.Router) {
	r.Handle(wire.PathInstaller, m.plain(m.serveInstaller)).Methods(http.MethodGet, http.MethodHead)
	r.Handle(wire.PathReleases+"/{counter}/{file}", m.plain(m.serveRelease)).Methods(http.MethodGet, http.MethodHead)
	r.Handle(wire.PathReport, m.authenticated(m.serveReport)).Methods(http.MethodPost)
	if m.opt.Operator == nil {
		return
	}
	for _, route := range []struct {
		method, path string
		handler      func(http.ResponseWriter, *http.Request) error
	}{
		{http.MethodGet, "", m.adminReleases},
		{http.MethodPost, "", m.adminPublish},
		{http.MethodGet, "/key", m.adminKey},
		{http.MethodPut, "/key", m.adminSetKey},
		{http.MethodPut, "/programs/{digest}", m.adminProgram},
		{http.MethodPost, "/{counter}/rollout", m.adminRollout},
	} {
		r.Handle(PathAdminReleases+route.path, m.opt.Operator(m.plain(route.handler))).Methods(route.method)
	}
}

func (m *Manager) serveInstaller(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "text/x-shellscript; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(deploy.InstallRobot))
	return nil
}

// serveRelease hands out one of a release's files to anybody.
func (m *Manager) serveRelease(w http.ResponseWriter, r *http.Request) error {
	var counter int64
	if text := mux.Vars(r)["counter"]; text != "current" {
		var err error
		if counter, err = strconv.ParseInt(text, 10, 64); err != nil || counter < 1 {
			return unknownRelease(text)
		}
	}
	signed, err := m.releases.Get(r.Context(), counter)
	if errors.Is(err, rollout.ErrUnknown) {
		return unknownRelease(mux.Vars(r)["counter"])
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-cache")
	name := mux.Vars(r)["file"]
	for text, b := range map[string][]byte{release.FileName: signed.Text, release.SignatureName: signed.Signature} {
		if name == text {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("Content-Length", strconv.Itoa(len(b)))
			w.Write(b)
			return nil
		}
	}
	for _, f := range signed.Files {
		if name == release.ProgramName(f.Platform) {
			program := m.releases.Program(r.Context(), f)
			defer program.Close()
			w.Header().Set("ETag", `"`+f.SHA256+`"`)
			http.ServeContent(w, r, "", time.Time{}, program)
			return nil
		}
	}
	return problem.New(http.StatusNotFound, "unknown_release", fmt.Sprintf("release %d has no %s", signed.Counter, name))
}

func unknownRelease(counter string) error {
	return problem.New(http.StatusNotFound, "unknown_release", "there is no release "+counter)
}

// serveReport takes what a robot says of its program, and offers it another.
func (m *Manager) serveReport(w http.ResponseWriter, r *http.Request, robot string) error {
	var req wire.ReportRequest
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	if len(req.Version) > 128 || len(req.Platform) > 64 || req.Counter < 0 || req.Seen < 0 || len(req.Failed) > 100 {
		return problem.New(http.StatusBadRequest, "bad_report", "version is at most 128 bytes, platform 64, failed 100 releases; counter and seen are not negative")
	}
	offer, err := m.releases.Report(r.Context(), robot, req)
	if err != nil {
		return err
	}
	if err := m.looked(r.Context(), robot); err != nil {
		return err
	}
	var answer wire.ReportAnswer
	if offer != nil {
		answer.Offer = *offer
	}
	if req.NoKey {
		key, err := m.releases.Key(r.Context())
		if err != nil {
			return err
		}
		if key != "" {
			answer.Key = wire.SignReleaseKey(robot, key, m.opt.Key)
		}
	}
	if answer == (wire.ReportAnswer{}) {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return writeJSON(w, http.StatusOK, answer)
}

// notBelowFloor keeps robots from new work whose program is too old to go on with.
// They may still report, fetch the release and send what they have.
func (m *Manager) notBelowFloor(f robotHandler) robotHandler {
	return func(w http.ResponseWriter, r *http.Request, robot string) error {
		floor, err := m.releases.BelowFloor(r.Context(), robot)
		if err != nil {
			return err
		}
		if floor > 0 {
			return problem.New(http.StatusUpgradeRequired, "below_floor",
				fmt.Sprintf("this robot's program is older than release %d, the oldest that is given work; sheaf-robot upgrade installs the current one", floor))
		}
		return f(w, r, robot)
	}
}

func (m *Manager) installable(r *http.Request) (Installable, error) {
	script := sha256.Sum256([]byte(deploy.InstallRobot))
	in := Installable{Script: hex.EncodeToString(script[:])}
	signed, err := m.releases.Get(r.Context(), 0)
	if errors.Is(err, rollout.ErrUnknown) {
		in.Missing, err = m.missingForInstall(r.Context())
		return in, err
	}
	if err != nil {
		return in, err
	}
	text := sha256.Sum256(signed.Text)
	in.Counter, in.Release = signed.Counter, hex.EncodeToString(text[:])
	return in, nil
}

// missingForInstall returns the operators' command after which every robot may have a release.
func (m *Manager) missingForInstall(ctx context.Context) (string, error) {
	const publish = "sheaf release publish --key KEYFILE ROBOTD…"
	key, err := m.releases.Key(ctx)
	if err != nil {
		return "", err
	}
	list, err := m.releases.List(ctx)
	switch {
	case err != nil:
		return "", err
	case key == "":
		return "sheaf release key KEYFILE, then " + publish, nil
	case len(list) == 0 || !time.Now().Before(list[0].Expires):
		return publish, nil
	}
	return fmt.Sprintf("sheaf release rollout %d --percent 100", list[0].Counter), nil
}

func (m *Manager) adminReleases(w http.ResponseWriter, r *http.Request) error {
	list, err := m.releases.List(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, ReleasesResponse{list})
}

func (m *Manager) adminPublish(w http.ResponseWriter, r *http.Request) error {
	var req PublishRequest
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	if req.Soak < 0 {
		return problem.New(http.StatusBadRequest, "bad_release", "soak is not negative")
	}
	err := m.releases.Publish(r.Context(), []byte(req.Release), []byte(req.Signature), time.Duration(req.Soak)*time.Second)
	if err != nil {
		return releaseError(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (m *Manager) adminKey(w http.ResponseWriter, r *http.Request) error {
	key, err := m.releases.Key(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, ReleaseKeyResponse{key})
}

func (m *Manager) adminSetKey(w http.ResponseWriter, r *http.Request) error {
	var req ReleaseKeyRequest
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	if err := m.releases.SetKey(r.Context(), req.Key, req.Replace); err != nil {
		return releaseError(err)
	}
	return m.adminKey(w, r)
}

func (m *Manager) adminProgram(w http.ResponseWriter, r *http.Request) error {
	err := m.releases.TakeProgram(r.Context(), mux.Vars(r)["digest"], http.MaxBytesReader(w, r.Body, maxProgram))
	if err != nil {
		return releaseError(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (m *Manager) adminRollout(w http.ResponseWriter, r *http.Request) error {
	counter, err := strconv.ParseInt(mux.Vars(r)["counter"], 10, 64)
	if err != nil {
		return unknownRelease(mux.Vars(r)["counter"])
	}
	var req RolloutRequest
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	if err := m.releases.Rollout(r.Context(), counter, req.Percent, req.Stopped); err != nil {
		return releaseError(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func releaseError(err error) error {
	var bad rollout.Bad
	switch {
	case errors.As(err, &bad):
		return problem.New(http.StatusBadRequest, "bad_release", err.Error())
	case errors.Is(err, rollout.ErrNoKey):
		return problem.New(http.StatusConflict, "no_release_key", err.Error())
	case errors.Is(err, rollout.ErrKey):
		return problem.New(http.StatusConflict, "other_release_key", err.Error())
	case errors.Is(err, rollout.ErrCounter):
		return problem.New(http.StatusConflict, "old_counter", err.Error())
	case errors.Is(err, rollout.ErrUnknown):
		return problem.New(http.StatusNotFound, "unknown_release", err.Error())
	default:
		return err
	}
}
