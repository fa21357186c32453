package main

import (
	"context"
	"debug/buildinfo"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// product says how one of the two programs is built and installed.
type product struct {
	name        string // name of the package, the image, the unit and the directories
	program     string // name of its file
	pkg         string // its Go package
	variable    string // the Go variable with its version
	account     string // the user that runs it
	description string
	sample      string                                     // file with all settings, from the root of the sources
	documents   []string                                   // patterns of documents, from the root of the sources; documents keep their folders
	template    bool                                       // there is also a unit NAME@.service, for further processes
	settings    string                                     // file that is installed as the settings, below /etc; "": none
	unit        func(source string) (text string, _ error) // of systemd
	install     string                                     // script that runs before the files are unpacked
	environment []string                                   // of the image
	command     []string                                   // of the image, after the program's name
	released    bool                                       // robots upgrade themselves with it
}

//go:embed sheaf.service
var serviceUnit string

//go:embed account.sh
var makeAccount string

//go:embed robot-preinstall.sh
var robotPreinstall string

//go:embed started.sh
var restartScript string

//go:embed removed.sh
var stopScript string

//go:embed robotd.yaml
var robotSettings string

func products() []product {
	return []product{{
		name: "sheaf", program: "sheaf", pkg: "./cmd/sheaf", variable: "sheaf/cmd/sheaf/service.release", account: "sheaf",
		description: "Archive and distribution service for collected web pages.\nIt takes batches from robots, publishes them as editions, and serves them by HTTP and FTP.",
		sample:      "deploy/sheaf.yaml", template: true,
		documents: []string{"docs/*.md", "docs/pictures/*", "deploy/*.yaml", "deploy/*.md", "deploy/prometheus/*.yml", "deploy/grafana/*", "deploy/compose/*", "deploy/kubernetes/*.yaml",
			"deploy/kubernetes/*/*", "README.md", "CHANGELOG.md", "SECURITY.md", "archive/*.md", "archive/*/*.md", "manager/*.md", "serve/*/*.md", "ingest/*.md"},
		unit: func(string) (string, error) { return serviceUnit, nil },
		// In a container 0.0.0.0 reaches only the container's network; the host decides what it
		// publishes.
		environment: []string{"SHEAF_DATA=/var/lib/sheaf", "SHEAF_HTTP_LISTEN=0.0.0.0:8080", "SHEAF_DOWNLOAD_LISTEN=0.0.0.0:2121", "SHEAF_DROP_LISTEN=0.0.0.0:2122"},
		command:     []string{"serve"},
	}, {
		name: "sheaf-robot", program: "robotd", pkg: "./cmd/robotd", variable: "sheaf/robotd.Version", account: "sheaf-robot",
		description: "Robot that collects web pages for a Sheaf service.\nIt visits the hosts that are assigned to it, politely, and uploads one signed batch a day.",
		sample:      "deploy/robotd.yaml", documents: []string{"docs/robots.md", "deploy/robotd.yaml", "deploy/*.md", "manager/*.md"}, settings: robotSettings,
		unit: robotUnit, install: robotPreinstall,
		environment: []string{"ROBOTD_DATA=/var/lib/sheaf-robot"},
		command:     []string{"run"},
		released:    true,
	}}
}

// robotUnit returns the unit that the robots' install script writes, for a program in /usr/bin.
func robotUnit(source string) (string, error) {
	script, err := os.ReadFile(filepath.Join(source, "deploy", "install-robot.sh"))
	if err != nil {
		return "", err
	}
	_, text, _ := strings.Cut(string(script), "cat >\"$unit\" <<-END\n")
	text, _, found := strings.Cut(text, "\n\tEND\n")
	if !found {
		return "", fmt.Errorf("deploy/install-robot.sh has no unit between <<-END and END")
	}
	var unknown error
	text = os.Expand(strings.ReplaceAll(text, "\t", ""), func(name string) string {
		value, ok := map[string]string{"account": "sheaf-robot", "etc": "/etc/sheaf-robot", "var": "/var/lib/sheaf-robot", "lib": "/usr/bin"}[name]
		if !ok {
			unknown = fmt.Errorf("deploy/install-robot.sh: the unit has $%s, which packages does not know", name)
		}
		return value
	})
	return text + "\n", unknown
}

// furtherUnit returns the template unit for further processes on one machine. It is the first
// process's unit, but takes its settings and secrets from files named after the instance.
func furtherUnit(name, unit string) string {
	etc := "/etc/" + name + "/"
	return strings.NewReplacer(
		etc+name+".yaml", etc+"%i.yaml",
		"EnvironmentFile=-"+etc+"environment\n", "EnvironmentFile=-"+etc+"environment\nEnvironmentFile=-"+etc+"%i.environment\n",
		"# sheaf setup writes it.\n", "",
		"\nDescription=", "\nDescription=%i: ",
	).Replace(unit)
}

// goEnv returns the environment of the go command. It passes on only what go needs, so that neither
// flags nor secrets of this process get into the programs.
func goEnv(more ...string) []string {
	env := []string{"CGO_ENABLED=0", "GOOS=linux", "GOWORK=off", "GOFLAGS="}
	for _, name := range []string{"PATH", "HOME", "GOPATH", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GOTOOLCHAIN", "GOTMPDIR", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return append(env, more...)
}

// compile builds a program, without C and without paths of this machine, and returns its path.
func (b *build) compile(ctx context.Context, p product, arch string) (string, error) {
	path := filepath.Join(b.work, arch, p.program)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X "+p.variable+"="+b.version, "-o", path, p.pkg)
	cmd.Dir = b.source
	cmd.Env = goEnv("GOARCH=" + arch)
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build for %s: %w\n%s", arch, err, text)
	}
	return path, nil
}

// manual returns the directory of a program's manual pages and completions: man1, and one file for
// each shell. The program writes them itself.
func (b *build) manual(ctx context.Context, p product) (string, error) {
	program, err := b.compile(ctx, p, runtime.GOARCH)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(b.work, "manual", p.program)
	pages := filepath.Join(dir, "man1")
	if err := os.MkdirAll(pages, 0o755); err != nil {
		return "", err
	}
	run := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = []string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", b.time.Unix())} // the help shows values from the environment
		cmd.Stderr = os.Stderr
		return cmd.Output()
	}
	if _, err := run("man", pages); err != nil {
		return "", fmt.Errorf("manual pages: %w", err)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		text, err := run("completion", shell)
		if err != nil {
			return "", fmt.Errorf("completion for %s: %w", shell, err)
		}
		if err := os.WriteFile(filepath.Join(dir, shell), text, 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// copyProgram copies a program into the output directory, under the name for `sheaf release
// publish`.
func (b *build) copyProgram(p product, arch, program string) error {
	return b.create(p.program+"-linux-"+arch, func(w io.Writer) error {
		f, err := os.Open(program)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, f)
		return err
	})
}

// billOfMaterials writes the list of a program's modules in CycloneDX's format, from the list that
// the go command stored in the program itself. It returns the file's path.
func (b *build) billOfMaterials(p product, program, arch string) (string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", err
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: b.time.Format("2006-01-02T15:04:05Z07:00"),
		Component: &cyclonedx.Component{Type: cyclonedx.ComponentTypeApplication, Name: p.program, Version: b.version},
	}
	parts := []cyclonedx.Component{module("std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, module(m.Path, m.Version))
	}
	bom.Components = &parts
	name := fmt.Sprintf("%s-%s-%s.cdx.json", p.name, b.version, arch)
	err = b.create(name, func(w io.Writer) error {
		return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	})
	return filepath.Join(b.out, name), err
}

func module(path, version string) cyclonedx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cyclonedx.Component{Type: cyclonedx.ComponentTypeLibrary, BOMRef: url, Name: path, Version: version, PackageURL: url}
}
