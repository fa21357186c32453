package handover

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	"sheaf/cmd/sheaf/service"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/serve/client"
	"sheaf/test/servicetest"
)

// daemon is a service as a process of its own, which can be killed and started again at the same
// addresses.
type daemon struct {
	*servicetest.Service
	args    []string
	log     string
	process *testkit.Process
}

// startDaemon starts a service that publishes at once, takes uploads however full the disk is, and
// does nothing else because of the time of day. settings are those of `sheaf serve --set`.
func startDaemon(t testing.TB, settings ...string) *daemon {
	t.Helper()
	dir, at := t.TempDir(), testkit.Addresses(t, 3)
	p := &daemon{Service: &servicetest.Service{Data: filepath.Join(dir, "data"), At: service.Addresses{HTTP: "http://" + at[0]}, T: t}, log: filepath.Join(dir, "service.log")}
	all := append([]string{
		"data=" + p.Data, "http.listen=" + at[0], "metrics=", "download.listen=" + at[1], "drop.listen=" + at[2],
		"publish.window=always", "balance.at=", "balance.during=false", "poll=50ms", "stop=1s",
		"uploads.full=100",
	}, settings...)
	p.args = []string{"serve"}
	for _, s := range all {
		p.args = append(p.args, "--set", s)
	}
	p.start()
	return p
}

// start starts the process, and waits until it answers.
func (p *daemon) start() {
	p.T.Helper()
	p.process = testkit.Start(p.T, p.log, exec.Command(testkit.Build(p.T, "sheaf/cmd/sheaf"), p.args...))
	p.process.Ready(p.T, func() error {
		token, err := service.ReadToken(p.Data)
		if err == nil {
			p.Client, err = client.Operator(p.At.HTTP, token)
		}
		if err == nil {
			err = p.Do(p.T.Context(), http.MethodGet, api.PathAdminRobots, nil, nil)
		}
		return err
	})
}

// kill ends the process as a power cut would. It may be called by any goroutine.
func (p *daemon) kill() { p.process.Kill() }
