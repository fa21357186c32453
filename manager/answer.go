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

// adminProblems are the errors that an operator caused, and their answers.
var adminProblems = []struct {
	err    error
	status int
	reason string
}{
	{roster.ErrRobotName, http.StatusBadRequest, "bad_name"},
	{roster.ErrRobotExists, http.StatusConflict, "robot_exists"},
	{roster.ErrActive, http.StatusConflict, "robot_active"},
	{roster.ErrUnknownRobot, http.StatusNotFound, "unknown_robot"},
	{roster.ErrNoRobot, http.StatusNotFound, "unknown_robot"},
	{roster.ErrNoKey, http.StatusConflict, "no_release_key"},
	{roster.ErrKey, http.StatusConflict, "other_release_key"},
	{roster.ErrCounter, http.StatusConflict, "old_counter"},
	{roster.ErrUnknown, http.StatusNotFound, "unknown_release"},
	{assign.ErrUnknownHost, http.StatusNotFound, "unknown_host"},
	{levelling.ErrNoPlanning, http.StatusNotFound, "no_plan"},
	{levelling.ErrGivenUp, http.StatusConflict, "given_up"},
	{hosts.ErrNotRefused, http.StatusNotFound, "not_refused"},
	{hosts.ErrPrefixNotRefused, http.StatusNotFound, "not_refused"},
}

// adminError turns an error that an operator caused into its HTTP answer. It returns other errors
// unchanged.
func adminError(err error) error {
	if _, ok := errors.AsType[assign.Invalid](err); ok {
		return problem.New(http.StatusBadRequest, "bad_hosts", err.Error())
	}
	if _, ok := errors.AsType[roster.Bad](err); ok {
		return problem.New(http.StatusBadRequest, "bad_release", err.Error())
	}
	for _, p := range adminProblems {
		if errors.Is(err, p.err) {
			return problem.New(p.status, p.reason, err.Error())
		}
	}
	return err
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
