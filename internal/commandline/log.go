package commandline

import (
	"context"
	"io"
	"log/slog"

	"sheaf/internal/peer"
)

// Log has the form and the level of a program's log. Lines are text or JSON. Each line for a
// request has the request's ID. A proxy in front and the object store behind can log the same ID.
//
// docs/logs.md lists the keys of lines; a test in test/house refuses other keys.
type Log struct {
	Format string `mapstructure:"format" want:"text or json"`              // text or json
	Level  string `mapstructure:"level" want:"debug, info, warn or error"` // the least important lines that are written: debug, info, warn or error
}

// Logger returns a logger that writes to w. The settings must have been checked.
func (s Log) Logger(w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.Level)); err != nil {
		level = slog.LevelInfo
	}
	opt := &slog.HandlerOptions{Level: level}
	if s.Format == "json" {
		return slog.New(requests{slog.NewJSONHandler(w, opt)})
	}
	return slog.New(requests{slog.NewTextHandler(w, opt)})
}

// requests adds the ID of the request to the lines that are logged with the request's context.
type requests struct{ slog.Handler }

// Handle implements slog.Handler.
func (h requests) Handle(ctx context.Context, line slog.Record) error {
	if id := peer.Request(ctx); id != "" {
		line = line.Clone()
		line.AddAttrs(slog.String("request", id))
	}
	return h.Handler.Handle(ctx, line)
}

// WithAttrs implements slog.Handler.
func (h requests) WithAttrs(attrs []slog.Attr) slog.Handler {
	return requests{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h requests) WithGroup(name string) slog.Handler { return requests{h.Handler.WithGroup(name)} }
