package servicetest

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	"sheaf/cmd/sheaf/service"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/serve/client"
)

// Program is a service as a process of its own, which can be killed and started again at the same
// addresses.
type Program struct {
	*Service
	args    []string
	log     string
	process *testkit.Process
}

// StartProgram starts a service that publishes at once, takes uploads however full the disk is, and
// does nothing else because of the time of day. settings are those of `sheaf serve --set`.
func StartProgram(t testing.TB, settings ...string) *Program {
	t.Helper()
	dir, at := t.TempDir(), testkit.Addresses(t, 3)
	p := &Program{Service: &Service{Data: filepath.Join(dir, "data"), At: service.Addresses{HTTP: "http://" + at[0]}, t: t}, log: filepath.Join(dir, "service.log")}
	all := append([]string{
		"data=" + p.Data, "http.listen=" + at[0], "metrics=", "download.listen=" + at[1], "drop.listen=" + at[2],
		"publish.window=always", "balance.at=", "balance.during=false", "poll=50ms", "stop=1s",
		"uploads.full=100",
	}, settings...)
	p.args = []string{"serve"}
	for _, s := range all {
		p.args = append(p.args, "--set", s)
	}
	p.Start()
	return p
}

// Start starts the process, and waits until it answers.
func (p *Program) Start() {
	p.t.Helper()
	p.process = testkit.Start(p.t, p.log, exec.Command(testkit.Build(p.t, "sheaf/cmd/sheaf"), p.args...))
	p.process.Ready(p.t, func() error {
		token, err := service.ReadToken(p.Data)
		if err == nil {
			p.Client, err = client.Operator(p.At.HTTP, token)
		}
		if err == nil {
			err = p.Do(p.t.Context(), http.MethodGet, api.PathAdminRobots, nil, nil)
		}
		return err
	})
}

// Kill ends the process as a power cut would. It may be called by any goroutine.
func (p *Program) Kill() { p.process.Kill() }
