package media

import "strings"

// CutRefresh parses the content of a refresh, such as "5; url='next.html'", as browsers do (HTML
// standard, shared declarative refresh steps). It returns the delay and the URL, which may be
// relative. It returns false if the refresh leads to no other page.
func CutRefresh(content string) (delay, url string, ok bool) {
	const blanks = " \t\r\n\f"
	content = strings.Trim(content, blanks)
	rest := strings.TrimLeft(content, "0123456789")
	if rest == content && !strings.HasPrefix(rest, ".") {
		return "", "", false
	}
	rest = strings.TrimLeft(rest, "0123456789.")
	delay = content[:len(content)-len(rest)]
	url = strings.TrimLeft(rest, blanks)
	if url != "" && (url[0] == ';' || url[0] == ',') {
		url = strings.TrimLeft(url[1:], blanks)
	}
	if len(url) == len(rest) { // nothing separates it from the delay
		return "", "", false
	}
	if len(url) >= 3 && strings.EqualFold(url[:3], "url") {
		if after := strings.TrimLeft(url[3:], blanks); strings.HasPrefix(after, "=") {
			url = strings.TrimLeft(after[1:], blanks)
		}
	}
	if url != "" && (url[0] == '"' || url[0] == '\'') {
		url, _, _ = strings.Cut(url[1:], url[:1])
	}
	return delay, url, url != ""
}
