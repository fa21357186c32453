package manager

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"sheaf/deploy"
	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/wire"
	"sheaf/manager/roster"
)

// maxProgram is how large a program that operators send may be, in bytes.
const maxProgram = 1 << 30

// ReleaseKeyRequest is the body of PUT /v1/admin/releases/key.
type ReleaseKeyRequest struct {
	Key     string `json:"key"`     // a public key in minisign's form
	Replace bool   `json:"replace"` // whether it may replace another key
}

// ReleaseKeyResponse answers GET and PUT /v1/admin/releases/key.
type ReleaseKeyResponse struct {
	Key string `json:"key"`
}

// PublishRequest is the body of POST /v1/admin/releases. The programs must have been sent before.
type PublishRequest struct {
	wire.Offer
	Soak roster.Seconds `json:"soak"` // shortest duration of each stage
}

// ReleasesResponse answers GET /v1/admin/releases.
type ReleasesResponse struct {
	Releases []roster.Release `json:"releases"`
}

// RolloutRequest is the body of POST /v1/admin/releases/{counter}/rollout.
type RolloutRequest struct {
	Percent int    `json:"percent"`
	Stopped string `json:"stopped,omitempty"` // why the roll-out stops; empty: it goes on
}

// Installable has the digests that a robot's install command names: of the script, and of the
// newest release that every robot may have.
type Installable struct {
	Script  string `json:"script"`            // SHA-256 of /install.sh
	Counter int64  `json:"counter,omitempty"` // counter of the release; 0: no release is for every robot yet
	Release string `json:"release,omitempty"` // SHA-256 of the release's text
	Missing string `json:"missing,omitempty"` // if Counter is 0: the command that an operator has to run first
}

// SetFirstReleaseKey registers in d the key that the releases of a new installation are signed
// with. It fails if another key is registered.
func SetFirstReleaseKey(ctx context.Context, d *sql.DB, key string) error {
	err := roster.NewReleases(d, nil, nil).SetKey(ctx, key, false)
	if errors.Is(err, roster.ErrKey) {
		return errors.New("the installation has another release key already; give its file, or none")
	}
	return err
}

// releaseAPI serves releases to anybody and lets operators publish them.
type releaseAPI struct{ releases *roster.Releases }

// Operations for anybody.
var (
	installer   = route.New[route.None, route.None]("GET", wire.PathInstaller, route.Anybody, audit.None, "The script that installs a robot").Answering(http.StatusOK, "").Sends("text/x-shellscript")
	releaseFile = route.New[route.None, route.None]("GET", wire.PathReleases+"/{counter}/{file}", route.Anybody, audit.None, "A file of a release of the robot's program").Answering(http.StatusOK, "").
			Sends("text/plain", "application/octet-stream").Also(http.StatusPartialContent, "", "").Also(http.StatusNotModified, "", "")
)

// register mounts the operations for anybody.
func (a releaseAPI) register(mount route.Mount) {
	installer.Raw(mount, a.serveInstaller)
	releaseFile.Raw(mount, a.serveFile)
}

// Operations for operators.
var (
	ListReleases  = route.New[route.None, ReleasesResponse]("GET", api.PathAdminReleases, operators.Viewer, audit.None, "Releases of the robot's program, and how far they are")
	Publish       = route.New[PublishRequest, route.None]("POST", api.PathAdminReleases, operators.Admin, audit.Release, "Publish a release")
	ReleaseKey    = route.New[route.None, ReleaseKeyResponse]("GET", api.PathAdminReleases+"/key", operators.Viewer, audit.None, "The key that releases are signed with")
	SetReleaseKey = route.New[ReleaseKeyRequest, ReleaseKeyResponse]("PUT", api.PathAdminReleases+"/key", operators.Admin, audit.Change, "Set it")
	SendProgram   = route.New[string, route.None]("PUT", api.PathAdminReleases+"/programs/{digest}", operators.Admin, audit.Add, "A program of a release").Takes("application/octet-stream")
	RollOut       = route.New[route.At[RolloutRequest], route.None]("POST", api.PathAdminReleases+"/{counter}/rollout", operators.Worker, audit.Release, "Set how many robots have a release, or stop it")
)

// registerAdmin mounts the operations for operators.
func (a releaseAPI) registerAdmin(mount route.Mount) {
	ListReleases.On(mount, func(ctx context.Context, _ route.None) (ReleasesResponse, error) {
		list, err := a.releases.List(ctx)
		return ReleasesResponse{list}, err
	})
	Publish.On(mount, route.Done(a.publish))
	ReleaseKey.On(mount, a.key)
	SetReleaseKey.On(mount, a.setKey)
	SendProgram.On(mount, route.Done(a.takeProgram))
	RollOut.On(mount, route.Done(a.rollOut))
}

func (a releaseAPI) serveInstaller(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "text/x-shellscript; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(deploy.InstallRobot))
	return nil
}

// serveFile sends a release's text, signature or program.
func (a releaseAPI) serveFile(w http.ResponseWriter, r *http.Request) error {
	var counter int64
	if text := mux.Vars(r)["counter"]; text != "current" {
		var err error
		if counter, err = strconv.ParseInt(text, 10, 64); err != nil || counter < 1 {
			return unknownRelease(text)
		}
	}
	signed, err := a.releases.Get(r.Context(), counter)
	if errors.Is(err, roster.ErrUnknown) {
		return unknownRelease(mux.Vars(r)["counter"])
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-cache")
	name := mux.Vars(r)["file"]
	for text, b := range map[string][]byte{wire.FileName: signed.Text, wire.SignatureName: signed.Signature} {
		if name == text {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("Content-Length", strconv.Itoa(len(b)))
			w.Write(b)
			return nil
		}
	}
	for _, f := range signed.Files {
		if name == wire.ProgramName(f.Platform) {
			program := a.releases.Program(r.Context(), f)
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

// serveReport takes a robot's report on its program and offers it a newer one.
func (m *Manager) serveReport(w http.ResponseWriter, r *http.Request, robot string) error {
	req, err := report.Read(w, r)
	if err != nil {
		return err
	}
	if len(req.Version) > 128 || len(req.Platform) > 64 || req.Counter < 0 || req.Seen < 0 || len(req.Failed) > 100 {
		return problem.New(http.StatusBadRequest, "bad_report", "version is at most 128 bytes, platform 64, failed 100 releases; counter and seen are not negative")
	}
	offer, err := m.Releases.Report(r.Context(), robot, req)
	if err != nil {
		return err
	}
	if err := m.Roster.Looked(r.Context(), robot); err != nil {
		return err
	}
	var answer wire.ReportAnswer
	if offer != nil {
		answer.Offer = *offer
	}
	if req.NoKey {
		key, err := m.Releases.Key(r.Context())
		if err != nil {
			return err
		}
		if key != "" {
			by, err := m.opt.Key.Signing(r.Context())
			if err != nil {
				return err
			}
			answer.Key = wire.SignReleaseKey(robot, key, by.Private)
		}
	}
	if answer == (wire.ReportAnswer{}) {
		return noContent(w, nil)
	}
	return problem.JSON(w, http.StatusOK, answer)
}

// notBelowFloor refuses new work to robots whose program is too old. They may still report, fetch
// the release and send what they have collected.
func (m *Manager) notBelowFloor(f robotHandler) robotHandler {
	return func(w http.ResponseWriter, r *http.Request, robot string) error {
		floor, err := m.Releases.BelowFloor(r.Context(), robot)
		if err != nil {
			return err
		}
		if floor > 0 {
			return problem.New(http.StatusUpgradeRequired, "below_floor",
				fmt.Sprintf("this robot's program is older than release %d, the oldest that gets work; sheaf-robot upgrade installs the current one", floor))
		}
		return f(w, r, robot)
	}
}

// installable returns the digests for an install command as of now.
func (a releaseAPI) installable(ctx context.Context) (Installable, error) {
	script := sha256.Sum256([]byte(deploy.InstallRobot))
	in := Installable{Script: hex.EncodeToString(script[:])}
	signed, err := a.releases.Get(ctx, 0)
	if errors.Is(err, roster.ErrUnknown) {
		in.Missing, err = a.missingForInstall(ctx)
		return in, err
	}
	if err != nil {
		return in, err
	}
	text := sha256.Sum256(signed.Text)
	in.Counter, in.Release = signed.Counter, hex.EncodeToString(text[:])
	return in, nil
}

// missingForInstall returns the command that an operator has to run before every robot may have a
// release.
func (a releaseAPI) missingForInstall(ctx context.Context) (string, error) {
	const publish = "sheaf release publish --key KEYFILE ROBOTD…"
	key, err := a.releases.Key(ctx)
	if err != nil {
		return "", err
	}
	list, err := a.releases.List(ctx)
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

func (a releaseAPI) publish(ctx context.Context, in PublishRequest) error {
	if in.Soak < 0 {
		return problem.New(http.StatusBadRequest, "bad_release", fmt.Sprintf("soak is %d s; send 0 or more", in.Soak))
	}
	return a.releases.Publish(ctx, []byte(in.Release), []byte(in.Signature), time.Duration(in.Soak)*time.Second)
}

func (a releaseAPI) key(ctx context.Context, _ route.None) (ReleaseKeyResponse, error) {
	key, err := a.releases.Key(ctx)
	return ReleaseKeyResponse{key}, err
}

func (a releaseAPI) setKey(ctx context.Context, in ReleaseKeyRequest) (ReleaseKeyResponse, error) {
	if err := a.releases.SetKey(ctx, in.Key, in.Replace); err != nil {
		return ReleaseKeyResponse{}, err
	}
	return a.key(ctx, route.None{})
}

func (a releaseAPI) takeProgram(ctx context.Context, digest string) error {
	return a.releases.TakeProgram(ctx, digest, http.MaxBytesReader(nil, route.Request(ctx).Body, maxProgram))
}

func (a releaseAPI) rollOut(ctx context.Context, in route.At[RolloutRequest]) error {
	counter, err := strconv.ParseInt(in.Name, 10, 64)
	if err != nil {
		return unknownRelease(in.Name)
	}
	return a.releases.Rollout(ctx, counter, in.Body.Percent, in.Body.Stopped)
}
