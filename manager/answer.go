package manager

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"sheaf/internal/problem"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
	"sheaf/manager/hosts"
	"sheaf/manager/levelling"
	"sheaf/manager/roster"
)

// noContent answers 204 if err is nil, and returns err.
func noContent(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

func writeText(w http.ResponseWriter, s string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, err := io.WriteString(w, s)
	return err
}

// adminError turns an error that an operator caused into its HTTP answer. It returns other errors
// unchanged.
func adminError(err error) error {
	var invalid assign.Invalid
	switch {
	case errors.As(err, &invalid):
		return problem.New(http.StatusBadRequest, "bad_hosts", err.Error())
	case errors.Is(err, roster.ErrRobotName):
		return problem.New(http.StatusBadRequest, "bad_name", err.Error())
	case errors.Is(err, roster.ErrRobotExists):
		return problem.New(http.StatusConflict, "robot_exists", err.Error())
	case errors.Is(err, roster.ErrActive):
		return problem.New(http.StatusConflict, "robot_active", err.Error())
	case errors.Is(err, roster.ErrUnknownRobot), errors.Is(err, roster.ErrNoRobot):
		return problem.New(http.StatusNotFound, "unknown_robot", err.Error())
	case errors.Is(err, assign.ErrUnknownHost):
		return problem.New(http.StatusNotFound, "unknown_host", err.Error())
	case errors.Is(err, levelling.ErrNoPlanning):
		return problem.New(http.StatusNotFound, "no_plan", err.Error())
	case errors.Is(err, levelling.ErrGivenUp):
		return problem.New(http.StatusConflict, "given_up", err.Error())
	case errors.Is(err, hosts.ErrNotRefused), errors.Is(err, hosts.ErrPrefixNotRefused):
		return problem.New(http.StatusNotFound, "not_refused", err.Error())
	default:
		return releaseError(err)
	}
}

// releaseError turns an error about releases into its HTTP answer. It returns other errors
// unchanged.
func releaseError(err error) error {
	var bad roster.Bad
	switch {
	case errors.As(err, &bad):
		return problem.New(http.StatusBadRequest, "bad_release", err.Error())
	case errors.Is(err, roster.ErrNoKey):
		return problem.New(http.StatusConflict, "no_release_key", err.Error())
	case errors.Is(err, roster.ErrKey):
		return problem.New(http.StatusConflict, "other_release_key", err.Error())
	case errors.Is(err, roster.ErrCounter):
		return problem.New(http.StatusConflict, "old_counter", err.Error())
	case errors.Is(err, roster.ErrUnknown):
		return problem.New(http.StatusNotFound, "unknown_release", err.Error())
	default:
		return err
	}
}

// bodyError returns the HTTP answer to a request with a bad body: 413 if the body is too large,
// otherwise 400.
func bodyError(reason string, err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return problem.New(http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("the body has more than %d bytes; send it in parts", tooLarge.Limit))
	case errors.Is(err, wire.ErrTooLarge):
		return problem.New(http.StatusRequestEntityTooLarge, "too_large", err.Error())
	default:
		return problem.New(http.StatusBadRequest, reason, err.Error())
	}
}
