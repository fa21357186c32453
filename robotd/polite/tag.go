package polite

import "strings"

// Tag is what a page asks of those who keep copies.
type Tag struct{ NoIndex, NoFollow, NoArchive bool }

// RobotsTag reads X-Robots-Tag headers as far as they speak to the agent. A value may
// begin with an agent's name, "otherbot: noindex, nofollow"; all of its words
// are then for that agent alone. Where some header names the agent, those for
// all still hold: the strictest of both is obeyed.
func RobotsTag(values []string, agent string) (t Tag) {
	token := productToken(agent)
	for _, value := range values {
		name, rest, named := strings.Cut(strings.ToLower(value), ":")
		if name = strings.TrimSpace(name); named && !strings.ContainsAny(name, ", ") && !takesValue(name) {
			if productToken(name) != token {
				continue
			}
			value = rest
		}
		for word := range strings.SplitSeq(strings.ToLower(value), ",") {
			switch strings.TrimSpace(word) {
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
	}
	return t
}

// takesValue tells the words that have a value behind a colon from agents' names.
func takesValue(word string) bool {
	switch word {
	case "unavailable_after", "max-snippet", "max-image-preview", "max-video-preview":
		return true
	}
	return false
}
