package service

import (
	"context"
	"fmt"
	"log/slog"

	"sheaf/cmd/sheaf/service/monitor"
	"sheaf/internal/files"
	"sheaf/internal/operators"
	"sheaf/manager"
)

// First has the first operator and the release key of a new installation.
type First struct {
	Operator   string // name of an admin
	Password   string // of the operator; empty: a random one
	ReleaseKey string // public half, in minisign's format; empty: none is registered
}

// Setup makes the data directory, the keys and the database of a new installation, and checks that
// the store can be used. It returns the operator's password. It fails if the operator exists, or if
// a service is running there.
func Setup(ctx context.Context, cfg Config, first First, log *slog.Logger) (password string, err error) {
	if err := files.MkdirAll(cfg.Data, 0o700); err != nil {
		return "", fmt.Errorf("settings: data: %w", err)
	}
	s := state{monitor: monitor.New()}
	defer s.close()
	if err := s.open(ctx, cfg, log); err != nil {
		return "", err
	}
	door := &operators.Door{Log: log}
	if err := door.Open(s.db, operators.Settings{}, ""); err != nil {
		return "", err
	}
	if first.ReleaseKey != "" { // first, because this can be repeated, and adding an operator cannot
		if err := manager.SetFirstReleaseKey(ctx, s.db, first.ReleaseKey); err != nil {
			return "", err
		}
	}
	_, password, err = door.Store.Add(ctx, operators.Operator{Name: first.Operator, Role: operators.Admin}, first.Password)
	return password, err
}
