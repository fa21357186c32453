package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the two formats
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// packages makes a program's .deb and .rpm for one architecture. parts is the path of the list of
// the program's modules, and pages the directory of its manual.
func (b *build) packages(p product, arch, program, parts, pages string) error {
	for _, format := range []string{"deb", "rpm"} {
		packager, err := nfpm.Get(format)
		if err != nil {
			return err
		}
		info, err := b.info(p, arch, format)
		if err != nil {
			return err
		}
		if info.Contents, err = b.contents(p, format, program, parts, pages); err != nil {
			return err
		}
		if err := nfpm.PrepareForPackager(info, format); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
		err = b.create(packager.ConventionalFileName(info), func(w io.Writer) error { return packager.Package(info, w) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *build) info(p product, arch, format string) (*nfpm.Info, error) {
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: p.name, Arch: arch, Platform: "linux", Version: b.version, VersionSchema: "none", Release: "1",
		Section: "web", Priority: "optional", Maintainer: "The operators of Sheaf <root@localhost>", Description: p.description,
		License: "Apache-2.0", MTime: b.time, DisableGlobbing: true,
	})
	info.Recommends = []string{"ca-certificates"}
	info.Deb.Compression, info.RPM.Compression = "zstd", "zstd"
	info.RPM.BuildHost = "localhost"
	if format == "rpm" {
		info.Depends = []string{"shadow-utils"}
	}
	for _, script := range []struct {
		file *string
		text string
	}{
		{&info.Scripts.PreInstall, p.install},
		{&info.Scripts.PostInstall, makeAccount + restartScript},
		{&info.Scripts.PreRemove, stopScript},
	} {
		if script.text == "" {
			continue
		}
		text := strings.NewReplacer("@NAME@", p.name, "@ACCOUNT@", p.account).Replace(script.text)
		path, err := b.file("script", []byte(text))
		if err != nil {
			return nil, err
		}
		*script.file = path
	}
	return info, nil
}

// contents lists the files of a package.
func (b *build) contents(p product, format, program, parts, pages string) (all files.Contents, err error) {
	add := func(source, destination string, mode os.FileMode) {
		all = append(all, &files.Content{Source: source, Destination: destination, FileInfo: &files.ContentFileInfo{Mode: mode, MTime: b.time}})
	}
	unit, err := p.unit(b.source)
	if err != nil {
		return nil, err
	}
	unitFile, err := b.file("unit", []byte(unit))
	if err != nil {
		return nil, err
	}
	add(program, "/usr/bin/"+p.program, 0o755)
	add(unitFile, "/usr/lib/systemd/system/"+p.name+".service", 0o644)
	if p.template {
		further, err := b.file("unit", []byte(furtherUnit(p.name, unit)))
		if err != nil {
			return nil, err
		}
		add(further, "/usr/lib/systemd/system/"+p.name+"@.service", 0o644)
	}
	doc := "/usr/share/doc/" + p.name + "/"
	add(filepath.Join(b.source, "LICENSE"), doc+"copyright", 0o644)
	add(filepath.Join(b.source, p.sample), doc+"examples/"+filepath.Base(p.sample), 0o644)
	add(parts, doc+"sbom.cdx.json", 0o644)
	for _, pattern := range p.documents {
		documents, err := filepath.Glob(filepath.Join(b.source, pattern))
		if err != nil {
			return nil, err
		}
		for _, document := range documents {
			name, err := filepath.Rel(b.source, document)
			if err != nil {
				return nil, err
			}
			add(document, doc+name, 0o644)
		}
	}
	add(filepath.Join(pages, "bash"), "/usr/share/bash-completion/completions/"+p.program, 0o644)
	add(filepath.Join(pages, "fish"), "/usr/share/fish/vendor_completions.d/"+p.program+".fish", 0o644)
	zsh := map[string]string{"deb": "vendor-completions", "rpm": "site-functions"}[format]
	add(filepath.Join(pages, "zsh"), "/usr/share/zsh/"+zsh+"/_"+p.program, 0o644)
	all = append(all, &files.Content{Destination: "/etc/" + p.name, Type: files.TypeDir, FileInfo: &files.ContentFileInfo{Mode: 0o755, MTime: b.time}})
	if p.settings != "" {
		file, err := b.file("settings", []byte(p.settings))
		if err != nil {
			return nil, err
		}
		add(file, "/etc/"+p.name+"/"+filepath.Base(p.sample), 0o644)
		all[len(all)-1].Type = files.TypeConfigNoReplace
	}
	manual, err := b.compressed(filepath.Join(pages, "man1"))
	for _, page := range manual {
		add(page, "/usr/share/man/man1/"+filepath.Base(page), 0o644)
	}
	return all, err
}

// compressed makes a gzip file NAME.gz of each file in a directory that is not such a file, and
// returns the new files' paths.
func (b *build) compressed(dir string) (paths []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".gz") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		var packed bytes.Buffer
		w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		w.Write(text) // to memory
		w.Close()
		path := filepath.Join(dir, e.Name()+".gz")
		if err := os.WriteFile(path, packed.Bytes(), 0o644); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// file writes text to a new file in the work directory, and returns the file's path.
func (b *build) file(name string, text []byte) (string, error) {
	f, err := os.CreateTemp(b.work, name+"-")
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = f.Write(text)
	return f.Name(), err
}
