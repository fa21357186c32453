// Command packages builds the files from which Sheaf is installed: for the service and for the
// robot a .deb, an .rpm and an OCI image for each architecture, a list of the modules in each
// program (CycloneDX), and the robots' programs for `sheaf release publish`. It needs Go, and no
// daemon.
//
// It is a module of its own, so that its dependencies are not in the go.mod of the programs.
//
// Two runs with the same sources, version, time and Go make the same bytes.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("packages: ")
	source := flag.String("source", "../..", "the root of the sources")
	out := flag.String("out", "../../dist", "the directory for what is built; files of the same names are replaced")
	version := flag.String("version", "", "the version, beginning with a digit (default: 0.0.0+ and the commit's time and ID)")
	arch := flag.String("arch", "amd64,arm64", "for which architectures, as Go names them")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("takes no arguments, but was given %q", flag.Args())
	}
	b := &build{source: *source, out: *out, version: *version}
	if err := b.run(context.Background(), strings.Split(*arch, ",")); err != nil {
		log.Fatal(err)
	}
}

// build is one run of the command.
type build struct {
	source, out string
	version     string
	time        time.Time // of all files in the packages
	work        string    // directory for temporary files
	made        []string  // names of the files in out
}

// run builds all products for the architectures, and the list of digests.
func (b *build) run(ctx context.Context, archs []string) (err error) {
	if err := b.identify(ctx); err != nil {
		return err
	}
	if b.work, err = os.MkdirTemp("", "sheaf-packages-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.work)) }()
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return err
	}
	for _, p := range products() {
		if err := b.product(ctx, p, archs); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return b.sums()
}

func (b *build) product(ctx context.Context, p product, archs []string) error {
	pages, err := b.manual(ctx, p)
	if err != nil {
		return err
	}
	for _, arch := range archs {
		program, err := b.compile(ctx, p, arch)
		if err != nil {
			return err
		}
		parts, err := b.billOfMaterials(p, program, arch)
		if err != nil {
			return err
		}
		if err := b.packages(p, arch, program, parts, pages); err != nil {
			return err
		}
		if err := b.image(p, arch, program); err != nil {
			return err
		}
		if p.released {
			if err := b.copyProgram(p, arch, program); err != nil {
				return err
			}
		}
	}
	return nil
}

// identify sets the time, from SOURCE_DATE_EPOCH (reproducible-builds.org) or else from the commit.
// Unless a version is given, it makes one from the commit.
func (b *build) identify(ctx context.Context) error {
	seconds, given := os.LookupEnv("SOURCE_DATE_EPOCH")
	if !given || b.version == "" {
		cmd := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct %h", "--abbrev=12")
		cmd.Dir = b.source
		text, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%s has no commit (%w): set SOURCE_DATE_EPOCH and --version", b.source, err)
		}
		at, commit, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
		if !given {
			seconds = at
		}
		if b.version == "" {
			n, _ := strconv.ParseInt(at, 10, 64)
			b.version = "0.0.0+" + time.Unix(n, 0).UTC().Format("20060102.150405") + "." + commit
		}
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %q is not a number of seconds since 1970", seconds)
	}
	b.time = time.Unix(n, 0).UTC()
	// Characters that .deb, .rpm and the names of files allow.
	plain := func(r rune) bool {
		return strings.ContainsRune("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.+~", r)
	}
	if b.version[0] < '0' || b.version[0] > '9' || strings.TrimFunc(b.version, plain) != "" {
		return fmt.Errorf("--version: %q: want a digit, then letters, digits, dots, + and ~", b.version)
	}
	return nil
}

// create makes a file in the output directory. The file appears under its name only if write
// succeeds.
func (b *build) create(name string, write func(io.Writer) error) error {
	path := filepath.Join(b.out, name)
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", name, err), os.Remove(f.Name()))
	}
	b.made = append(b.made, name)
	return os.Rename(f.Name(), path)
}

// sums writes the digests of the files that were made to SHA256SUMS, and prints the files' sizes
// and names.
func (b *build) sums() error {
	slices.Sort(b.made)
	var text strings.Builder
	for _, name := range b.made {
		f, err := os.Open(filepath.Join(b.out, name))
		if err != nil {
			return err
		}
		sum := sha256.New()
		n, err := io.Copy(sum, f)
		f.Close()
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sum.Sum(nil), name)
		fmt.Printf("%6.1f MB  %s\n", float64(n)/1e6, name)
	}
	return b.create("SHA256SUMS", func(w io.Writer) error {
		_, err := io.WriteString(w, text.String())
		return err
	})
}
