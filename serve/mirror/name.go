package mirror

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The names of archives in a host's directory; tables have a folder of their own. The mirror
// fetches and deletes no other files.
//
// The files of an edition never change. Those of current and all change with every edition: the
// feed says that the host has something new, and the host's MANIFEST says what these files are now.
var (
	editionFile  = regexp.MustCompile(`^[0-9]{8}(-[0-9]+)?\.(tar|warc|links)\.gz$`)
	changingFile = regexp.MustCompile(`^((current|all)\.(tar|warc)|all\.links)\.gz$`)
)

func isEditionFile(name string) bool { return editionFile.MatchString(name) }

func isChanging(name string) bool { return changingFile.MatchString(name) }

func isArchive(name string) bool { return isEditionFile(name) || isChanging(name) || isTable(name) }

func editionOf(name string) string {
	edition, _, _ := strings.Cut(name, ".")
	return edition
}

// form converts a form as users write it: to a suffix such as ".tar.gz" for files of editions, and
// to a whole name such as "current.tar.gz" for others.
func form(text string) (string, error) {
	if isChanging(text) {
		return text, nil
	}
	if suffix := "." + strings.TrimPrefix(text, "."); isEditionFile("20261121" + suffix) {
		return suffix, nil
	}
	if text == "current.links.gz" {
		return "", fmt.Errorf("form %q: it is put together for each who asks, and no MANIFEST tells whether it has changed; mirror all.links.gz", text)
	}
	return "", fmt.Errorf("form %q: give some of tar.gz, warc.gz and links.gz, of editions, and of current.tar.gz, current.warc.gz, all.tar.gz, all.warc.gz and all.links.gz", text)
}

// kept reports whether a file of this name is of one of the forms.
func kept(forms []string, name string) bool {
	return slices.Contains(forms, name) ||
		isEditionFile(name) && slices.ContainsFunc(forms, func(f string) bool { return strings.HasPrefix(f, ".") && strings.HasSuffix(name, f) })
}

// takes reports whether the mirror keeps a file of this name in its folder.
func (m *mirror) takes(name string) bool { return kept(m.Forms, name) || isTable(name) }
