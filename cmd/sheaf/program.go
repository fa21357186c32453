package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sheaf/internal/release"
	"sheaf/serve/client"
)

// program is a robotd that is to be released.
type program struct {
	release.File
	path    string
	version string // empty where the build does not say
}

// versionSet finds the version that a build was given by -ldflags.
var versionSet = regexp.MustCompile(`-X[= ]'?sheaf/robotd\.Version=([^\s'"]+)`)

// readPrograms reads what the Go linker left in each program: what it is, for which
// platform, and in which version. They come sorted by platform.
func readPrograms(paths []string) ([]program, error) {
	var programs []program
	for _, path := range paths {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s is no robotd: %w", path, err)
		}
		if info.Path != "sheaf/cmd/robotd" {
			return nil, fmt.Errorf("%s is no robotd: it was built of %s", path, info.Path)
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
		sum := sha256.New()
		p.Size, err = io.Copy(sum, f)
		f.Close()
		if err != nil {
			return nil, err
		}
		p.SHA256 = hex.EncodeToString(sum.Sum(nil))
		programs = append(programs, p)
	}
	slices.SortFunc(programs, func(a, b program) int { return strings.Compare(a.Platform, b.Platform) })
	return programs, nil
}

// sendTime is how long one program may take to the service.
const sendTime = 30 * time.Minute

func sendProgram(cmd *cobra.Command, c *client.Client, p program) error {
	f, err := os.Open(p.path)
	if err != nil {
		return err
	}
	defer f.Close()
	long := *c
	long.HTTP = &http.Client{Timeout: sendTime}
	if err := long.Send(cmd.Context(), http.MethodPut, releasesPath+"/programs/"+p.SHA256, "application/octet-stream", f, nil); err != nil {
		return fmt.Errorf("%s: %w", p.path, err)
	}
	return nil
}
