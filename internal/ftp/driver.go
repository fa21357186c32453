package ftp

import (
	"io/fs"
	"log/slog"
	"strings"
	"time"

	goftp "goftp.io/server/v2"
)

// statOnly is the driver that goftp asks for. Of all goftp's commands that
// would use one only CWD is left, and it enters what our own has just found.
type statOnly struct{ goftp.Driver }

func newStatOnly() statOnly { return statOnly{goftp.NewMultiDriver(nil)} }

func (statOnly) Stat(ctx *goftp.Context, _ string) (fs.FileInfo, error) {
	return info{connOf(ctx.Sess).found}, nil
}

// info is an Entry as goftp wants to see it.
type info struct{ entry Entry }

func (i info) Name() string       { return i.entry.Name }
func (i info) Size() int64        { return i.entry.Size }
func (i info) ModTime() time.Time { return i.entry.Modified }
func (i info) IsDir() bool        { return i.entry.Dir }
func (i info) Sys() any           { return nil }
func (i info) Mode() fs.FileMode {
	if i.entry.Dir {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

// vouched is goftp's password check: ours has been made before it is asked.
type vouched struct{}

func (vouched) CheckPasswd(ctx *goftp.Context, _, _ string) (bool, error) {
	return connOf(ctx.Sess).session != nil, nil
}

// quiet is goftp's logger. Commands are logged for those who debug, passwords
// never.
type quiet struct{ log *slog.Logger }

func (quiet) Print(string, any)             {}
func (quiet) Printf(string, string, ...any) {}
func (q quiet) PrintCommand(_, command, arg string) {
	if command = printable(command); strings.EqualFold(command, "PASS") {
		arg = "***"
	}
	q.log.Debug("ftp: command", "command", command, "argument", arg)
}
func (quiet) PrintResponse(string, int, string) {}
