package servicetest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// Compose has the parts of deploy/compose/compose.yaml that tests look at.
type Compose struct {
	Services map[string]Container
}

// Container is a service of a Compose project.
type Container struct {
	Image       string
	Command     []string
	Environment map[string]string
	ReadOnly    bool `json:"read_only"`
	User        string
	Networks    map[string]struct {
		Address string `json:"ipv4_address"`
	}
	Ports []struct {
		Target    int
		Published string
	}
	Volumes []struct{ Type, Source, Target string }
}

// Values of the variables in compose.yaml that LoadCompose gives.
const (
	ComposeAddress = "192.0.2.1"
	ComposeSeal    = "5eaf5eaf5eaf5eaf5eaf5eaf5eaf5eaf5eaf5eaf5eaf5eaf5eaf5eaf5eaf5eaf"
	ComposePublic  = "http://archive.example.jp:8080"
)

// LoadCompose reads the project of the reference deployment, as docker compose does.
func LoadCompose(t testing.TB) (project Compose) {
	t.Helper()
	out, err := DecodeManifests(t, "compose", filepath.Join(testkit.Root(t), "deploy", "compose", "compose.yaml"))
	testkit.Must(t, err)
	testkit.Must(t, json.Unmarshal(out, &project))
	return project
}

// DecodeManifests runs test/manifests on files of a kind, compose or kubernetes, and returns the
// JSON that it prints.
func DecodeManifests(t testing.TB, kind string, files ...string) ([]byte, error) {
	t.Helper()
	cmd := exec.Command(testkit.BuildModule(t, "test/manifests"), append([]string{kind}, files...)...)
	cmd.Env = append(os.Environ(), "SHEAF_VERSION=1.2.3", "SHEAF_ADDRESS="+ComposeAddress, "SHEAF_PUBLIC="+ComposePublic,
		"SHEAF_SEAL="+ComposeSeal, "POSTGRES_PASSWORD=secret", "STORE_SECRET_KEY=sheaf-secret")
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, complaint.String())
	}
	return out, nil
}

// Nodes returns the names of the processes of the service, sorted.
func (c Compose) Nodes() (names []string) {
	for name, s := range c.Services {
		if strings.HasPrefix(s.Image, "sheaf:") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Mounted returns the file on this machine that a container sees as target.
func (c Container) Mounted(target string) string {
	for _, v := range c.Volumes {
		if v.Type == "bind" && v.Target == target {
			return v.Source
		}
	}
	return ""
}

// Address returns the container's address in the project's network.
func (c Container) Address() string { return c.Networks["inside"].Address }
