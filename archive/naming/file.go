package naming

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"path"
	"strings"
)

// Limits for a tar name, in bytes. Windows allows 260 for a whole path, file systems 255 for one
// name.
const (
	maxName     = 220
	maxNamePart = 80
)

// metaDir and BatchDir are reserved directories. metaDir, below the host's directory, has the index
// and links cells; BatchDir, beside the hosts' directories, has the manifest.
const (
	metaDir  = "_meta"
	BatchDir = "_batch"
)

// FileName returns the name of the tar entry for a page of the host. It depends on the URL alone.
// No two URLs have the same name, not even on file systems that ignore case.
//
// If an http URL has no query, and its path is harmless in every respect, the path is the name. A
// path that ends in a slash gets index.html. Every other URL gets a marked name: its parts are made
// harmless, and "~" with 80 bits of the URL's SHA-256 is inserted before the file's extension.
// Plain files have an extension and no "~". Directories have no extension, and no "~" except at the
// beginning. So neither a marked name nor a directory can be equal to a plain one.
func FileName(host, url string) string { return fileName(host, url, "") }

// PartName returns the name of the tar entry for a part of a page. The name is marked. rng is the
// part's Content-Range. Parts of a page with different ranges have different names.
func PartName(host, url, rng string) string { return fileName(host, url, " "+rng) }

// fileName returns the name of a page or of a part of a page. part is empty for a page; otherwise
// it tells the part from the page and from other parts.
func fileName(host, url, part string) string {
	path, _, hasQuery := pathAndQuery(url)
	parts := strings.Split(path[1:], "/")
	last := len(parts) - 1
	plain := strings.HasPrefix(url, "http:") && !hasQuery && part == ""
	for i, dir := range parts[:last] {
		plain = plain && isPlain(dir)
		parts[i] = directoryName(dir)
		plain = plain && parts[i] == dir && (i > 0 || dir != metaDir)
	}
	leaf := parts[last]
	stem, ext := cutExtension(leaf)
	if leaf == "" {
		stem, ext = "index", ".html"
	} else {
		plain = plain && isPlain(leaf) && ext != "" && !strings.Contains(leaf, "~") && !windowsReserved(leaf) &&
			leaf != "index.html" && len(leaf) <= maxNamePart
	}
	if !plain {
		if parts[0] == metaDir && last > 0 {
			parts[0] += "_"
		}
		stem = safePart(stem)
		if windowsReserved(stem) {
			stem = "_" + stem
		}
		stem += "~" + shortHash(url+part)
	}
	parts[last] = stem + ext
	name := strings.Join(parts, "/")
	if len(name) <= maxName {
		return HostDir(host) + "/" + name
	}
	if plain {
		stem += "~" + shortHash(url+part)
	}
	return HostDir(host) + "/_long/" + stem + ext
}

func shortHash(url string) string {
	sum := sha256.Sum256([]byte(url))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}

// isPlain reports whether every byte can be in a file name as it is.
func isPlain(part string) bool {
	for i := range len(part) {
		if !plainByte(part[i]) {
			return false
		}
	}
	return true
}

func plainByte(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("-._~+,=@", c) >= 0
}

// cutExtension splits "page.html" before the point. An extension is a letter and up to seven
// letters or digits.
func cutExtension(part string) (stem, ext string) {
	i := strings.LastIndexByte(part, '.')
	if i <= 0 || len(part)-i < 2 || len(part)-i > 9 {
		return part, ""
	}
	for j, c := range []byte(part[i+1:]) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (j == 0 || c < '0' || c > '9') {
			return part, ""
		}
	}
	return part[:i], part[i:]
}

// directoryName makes a part of a path usable as a directory. Parts that are usable do not change.
func directoryName(part string) string {
	s := safePart(part)
	if i := strings.LastIndexByte(s, '~'); i > 0 {
		s = s[:1] + strings.ReplaceAll(s[1:], "~", "_")
	}
	if windowsReserved(s) {
		s = "_" + s
	}
	if _, ext := cutExtension(s); ext != "" || strings.HasSuffix(s, ".") {
		s += "_"
	}
	return s
}

// safePart replaces bytes that file systems or shells do not accept, and shortens long parts.
// Letters keep their case.
func safePart(part string) string {
	part = part[:min(len(part), maxNamePart)]
	s := []byte(part)
	for i, c := range s {
		if !plainByte(c) && (c < 'A' || c > 'Z') {
			s[i] = '_'
		}
	}
	if len(s) == 0 || strings.Trim(part, ".") == "" {
		return "_"
	}
	return string(s)
}

// IndexName returns the tar name of a segment's index cell.
func IndexName(host, segment string) string { return MetaName(host, segment, ".cdxj") }

// MetaName returns the tar name of a file that describes a segment.
func MetaName(host, segment, ext string) string {
	return HostDir(host) + "/" + metaDir + "/" + segment + ext
}

// ParseMetaName is the inverse of MetaName. ok is false for other names.
func ParseMetaName(name, ext string) (host, segment string, ok bool) {
	dir, file, _ := strings.Cut(name, "/"+metaDir+"/")
	segment, ok = strings.CutSuffix(file, ext)
	host, port := cutPort(dir)
	if strings.HasPrefix(host, "[") {
		host = strings.ReplaceAll(host, "-", ":")
	}
	if port != "" {
		host += ":" + port
	}
	return host, segment, ok && CheckHost(host) == nil && HostDir(host) == dir && CheckSegment(segment) == nil
}

// CheckSegment checks that a segment's ID can be part of a file name.
func CheckSegment(id string) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
	bad := func(r rune) bool { return !strings.ContainsRune(letters, r) }
	if id == "" || len(id) > 120 || id[0] == '.' || strings.ContainsFunc(id, bad) {
		return fmt.Errorf("segment ID %.150q is not made of letters, digits, points, hyphens and underscores", id)
	}
	return nil
}

// LinksName returns the tar name of a segment's links cell.
func LinksName(host, segment string) string { return MetaName(host, segment, ".links") }

// Escapes reports whether a tar name is not clean, or could lead out of its directory.
func Escapes(name string) bool {
	return name == "" || name[0] == '/' || strings.ContainsAny(name, "\\\x00") || path.Clean(name) != name ||
		name == ".." || strings.HasPrefix(name, "../")
}
