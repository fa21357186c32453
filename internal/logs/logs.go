// Package logs makes the loggers of both programs. Lines are text or JSON. Each line that is
// written for a request has the request's ID, by which it is found in the lines of all rooms, of a
// proxy in front and of the object store behind.
//
// The keys of lines are those that docs/logs.md lists; a test in test/house refuses others.
package logs

import (
	"context"
	"io"
	"log/slog"
	"strings"

	"sheaf/internal/settings"
)

// Values of Settings.Format.
const (
	text = "text"
	json = "json"
)

// requestKey is the key of a request's ID in lines.
const requestKey = "request"

// Settings is how a program writes its log.
type Settings struct {
	Format string `mapstructure:"format"` // text or json
	Level  string `mapstructure:"level"`  // the least important lines that are written: debug, info, warn or error
}

// Default returns text from info upwards.
func Default() Settings { return Settings{Format: text, Level: "info"} }

// Check checks the settings, which are those under the key log.
func (s Settings) Check(is *settings.Checks) {
	is.Require(s.Format == text || s.Format == json, "log.format", s.Format, "want text or json")
	_, ok := s.level()
	is.Require(ok, "log.level", s.Level, "want debug, info, warn or error")
}

func (s Settings) level() (slog.Level, bool) {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if s.Level == strings.ToLower(level.String()) {
			return level, true
		}
	}
	return slog.LevelInfo, false
}

// New returns a logger that writes to w. The settings must have been checked.
func (s Settings) New(w io.Writer) *slog.Logger {
	level, _ := s.level()
	opt := &slog.HandlerOptions{Level: level}
	if s.Format == json {
		return slog.New(WithRequests(slog.NewJSONHandler(w, opt)))
	}
	return slog.New(WithRequests(slog.NewTextHandler(w, opt)))
}

// WithRequests returns a handler that adds the ID of the request to the lines that are logged with
// the request's context.
func WithRequests(next slog.Handler) slog.Handler { return requests{next} }

// requests implements WithRequests.
type requests struct{ slog.Handler }

// Handle implements slog.Handler.
func (h requests) Handle(ctx context.Context, line slog.Record) error {
	if id := Request(ctx); id != "" {
		line = line.Clone()
		line.AddAttrs(slog.String(requestKey, id))
	}
	return h.Handler.Handle(ctx, line)
}

// WithAttrs implements slog.Handler.
func (h requests) WithAttrs(attrs []slog.Attr) slog.Handler {
	return requests{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h requests) WithGroup(name string) slog.Handler { return requests{h.Handler.WithGroup(name)} }
