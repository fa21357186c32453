package admin

import (
	"debug/buildinfo"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/serve/client"
)

// program is a robotd program file.
type program struct {
	wire.ReleaseFile
	path    string
	version string // empty if the build does not say
}

// versionSet finds the version in a build's -ldflags.
var versionSet = regexp.MustCompile(`-X[= ]'?sheaf/robotd\.Version=([^\s'"]+)`)

// readPrograms reads the build information in each program: its package, platform and version. It
// returns the programs sorted by platform.
func readPrograms(paths []string) ([]program, error) {
	var programs []program
	for _, path := range paths {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s is not a robotd: %w", path, err)
		}
		if info.Path != "sheaf/cmd/robotd" {
			return nil, fmt.Errorf("%s is not a robotd: it was built from %s", path, info.Path)
		}
		p := program{path: path}
		var system, machine string
		for _, s := range info.Settings {
			switch s.Key {
			case "GOOS":
				system = s.Value
			case "GOARCH":
				machine = s.Value
			case "-ldflags":
				if m := versionSet.FindStringSubmatch(s.Value); m != nil {
					p.version = m[1]
				}
			}
		}
		p.Platform = system + "-" + machine
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		p.SHA256, p.Size, err = wire.DigestOf(f)
		f.Close()
		if err != nil {
			return nil, err
		}
		programs = append(programs, p)
	}
	slices.SortFunc(programs, func(a, b program) int { return strings.Compare(a.Platform, b.Platform) })
	return programs, nil
}

// sendTime is the most time that sending one program may take.
const sendTime = 30 * time.Minute

func sendProgram(cmd *cobra.Command, c *client.Client, p program) error {
	f, err := os.Open(p.path)
	if err != nil {
		return err
	}
	defer f.Close()
	long := *c
	long.HTTP = client.Within(sendTime)
	ref, _ := manager.SendProgram.Call(p.SHA256)
	if err := long.Send(cmd.Context(), http.MethodPut, ref, "application/octet-stream", f, nil); err != nil {
		return fmt.Errorf("%s: %w", p.path, err)
	}
	return nil
}
