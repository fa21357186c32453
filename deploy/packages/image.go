package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nobody is the ID of the user and of the group in an image. Other rootless images use the same ID,
// so images can share volumes.
const nobody = 65532

// image makes an OCI image: the program, the web's certificate authorities, and a directory that
// the program may write. The file is a tar of an OCI layout, as `podman load`, `docker load` and
// `skopeo copy oci-archive:` read it.
func (b *build) image(p product, arch, program string) error {
	layer, err := b.layer(p, program)
	if err != nil {
		return err
	}
	content, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return err
	}
	img, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), content)
	if err != nil {
		return err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return err
	}
	home := "/var/lib/" + p.name
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: b.time}
	config.Config = v1.Config{
		User: fmt.Sprintf("%d:%d", nobody, nobody), Entrypoint: []string{"/usr/bin/" + p.program}, Cmd: p.command, WorkingDir: home,
		Env: append([]string{"PATH=/usr/bin"}, p.environment...), Volumes: map[string]struct{}{home: {}},
		Labels: map[string]string{"org.opencontainers.image.title": p.name, "org.opencontainers.image.version": b.version},
	}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(b.work, "image-")
	if err != nil {
		return err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	err = path.AppendImage(img, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": p.name + ":" + strings.ReplaceAll(b.version, "+", "-")}),
		layout.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
	if err != nil {
		return err
	}
	return b.create(fmt.Sprintf("%s-%s-%s.oci.tar", p.name, b.version, arch), func(w io.Writer) error { return b.archive(w, dir) })
}

// layer returns an image's only layer: a tar of the program, the certificate authorities and the
// directories.
func (b *build) layer(p product, program string) ([]byte, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	text, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil { // a constraint could not be written to the file
			pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // to memory
		}
	}
	for _, f := range []struct {
		name  string
		mode  int64
		owner int
		text  []byte
	}{
		{"etc/", 0o755, 0, nil},
		{"etc/group", 0o644, 0, fmt.Appendf(nil, "root:x:0:\n%s:x:%d:\n", p.account, nobody)},
		{"etc/passwd", 0o644, 0, fmt.Appendf(nil, "root:x:0:0:root:/:/bin/false\n%s:x:%d:%d::/var/lib/%s:/bin/false\n", p.account, nobody, nobody, p.name)},
		{"etc/ssl/", 0o755, 0, nil},
		{"etc/ssl/certs/", 0o755, 0, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, 0, roots.Bytes()},
		{"tmp/", 0o1777, 0, nil},
		{"usr/", 0o755, 0, nil},
		{"usr/bin/", 0o755, 0, nil},
		{"usr/bin/" + p.program, 0o755, 0, text},
		{"var/", 0o755, 0, nil},
		{"var/lib/", 0o755, 0, nil},
		{"var/lib/" + p.name + "/", 0o750, nobody, nil},
	} {
		h := &tar.Header{Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.text)), ModTime: b.time, Typeflag: tar.TypeReg}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	return packed.Bytes(), w.Close()
}

// archive writes a tar of a directory's files, in the order of their names.
func (b *build) archive(to io.Writer, dir string) error {
	w := tar.NewWriter(to)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(text)), ModTime: b.time}); err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}
