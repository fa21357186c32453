package main

import (
	"debug/buildinfo"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

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
