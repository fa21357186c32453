package commandline

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"sheaf/internal/peer"
	"sheaf/internal/testkit"
)

// Lines have the request's ID, once, also from loggers with keys of their own, in both formats.
func TestLines(t *testing.T) {
	t.Parallel()
	ctx := peer.WithRequest(t.Context(), "r1")
	var out strings.Builder
	log := Log{Format: "json", Level: "warn"}.Logger(&out)
	log.With("robot", "sv1").WarnContext(ctx, "text", "host", "a.jp")
	log.InfoContext(ctx, "too unimportant")
	var line struct{ Msg, Robot, Host, Request string }
	testkit.Must(t, json.Unmarshal([]byte(out.String()), &line))
	if line.Msg != "text" || line.Robot != "sv1" || line.Host != "a.jp" || line.Request != "r1" || strings.Count(out.String(), "request") != 1 {
		t.Errorf("the line is %s", out.String())
	}
	out.Reset()
	log = Log{Format: "text", Level: "info"}.Logger(&out)
	log.LogAttrs(ctx, slog.LevelInfo, "text")
	log.Info("no request")
	if lines := strings.Split(out.String(), "\n"); len(lines) != 3 || !strings.HasSuffix(lines[0], "msg=text request=r1") || !strings.HasSuffix(lines[1], `msg="no request"`) {
		t.Errorf("the lines are %q", lines)
	}
}
