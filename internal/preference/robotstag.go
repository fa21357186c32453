package preference

import "strings"

// Tag is what a page asks of those who copy it, in a header or in <meta name=robots>.
type Tag struct{ NoIndex, NoFollow, NoArchive bool }

// ReadTag parses X-Robots-Tag headers. A value may begin with an agent's name, "otherbot: noindex,
// nofollow"; all of its words then apply only to that agent. Values without a name apply to every
// agent. The words of all values that apply are combined.
func ReadTag(values []string, agent string) (t Tag) {
	token := productToken(agent)
	for _, value := range values {
		name, rest, named := strings.Cut(strings.ToLower(value), ":")
		if name = strings.TrimSpace(name); named && !strings.ContainsAny(name, ", ") && !takesValue(name) {
			if productToken(name) != token {
				continue
			}
			value = rest
		}
		for word := range strings.SplitSeq(value, ",") {
			t.Add(strings.TrimSpace(word))
		}
	}
	return t
}

// Add adds what a word asks. It ignores words that ask for something else.
func (t *Tag) Add(word string) {
	switch strings.ToLower(word) {
	case "noindex":
		t.NoIndex = true
	case "nofollow":
		t.NoFollow = true
	case "noarchive":
		t.NoArchive = true
	case "none":
		t.NoIndex, t.NoFollow = true, true
	}
}

// takesValue reports whether a word before a colon is a rule with a value, and not an agent's name.
func takesValue(word string) bool {
	switch word {
	case "unavailable_after", "max-snippet", "max-image-preview", "max-video-preview":
		return true
	}
	return false
}
