package ui

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"sheaf/internal/problem"
	"sheaf/internal/webpage"
)

// webmastersPage tells the owners of sites who visits them, and how to be left out.
type webmastersPage struct {
	webpage.Page
	About string
}

var webmastersTemplate = page("webmasters")

func (f *face) webmasters(w http.ResponseWriter, r *http.Request) error {
	return webpage.Show(w, r, http.StatusOK, webmastersTemplate, webmastersPage{Page: f.Site.For(r), About: f.About})
}

// robotsTxt restricts search engines to the pages about the archive. The archived pages are other
// people's, and would be found twice.
func robotsTxt(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "public, max-age=86400")
	fmt.Fprint(w, "User-agent: *\nAllow: /$\nAllow: /webmasters\nAllow: /removal$\nAllow: /robots/$\nDisallow: /\n")
	return nil
}

// securityTxt says whom to tell of a security hole (RFC 9116). Without a contact it answers 404.
func (f *face) securityTxt(w http.ResponseWriter, r *http.Request) error {
	contact := string(f.Site.ContactLink())
	if contact == "" {
		problem.NotFound(w, r)
		return nil
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	until := time.Now().AddDate(0, 6, 0).UTC().Truncate(24 * time.Hour)
	var text strings.Builder
	fmt.Fprintf(&text, "Contact: %s\nExpires: %s\nPreferred-Languages: en, ja\n", contact, until.Format(time.RFC3339))
	if f.Public != "" {
		fmt.Fprintf(&text, "Canonical: %s/.well-known/security.txt\n", f.Public)
	}
	fmt.Fprint(w, text.String())
	return nil
}
