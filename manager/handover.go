package manager

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/gorilla/mux"

	"sheaf/internal/problem"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
	"sheaf/manager/roster"
)

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
