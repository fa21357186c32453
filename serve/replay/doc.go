// Package replay shows stored pages as they were. It rewrites their links so that a reader stays
// within the archive and at the page's time, and it shows the differences between the texts of two
// versions.
//
// A page is rewritten while it is streamed, in its own encoding. Only attributes and URLs in style
// sheets that lead somewhere change, and they are written in ASCII. Pages in ISO-2022-JP or UTF-16,
// whose markup cannot be parsed as ASCII, are converted to UTF-8. Scripts, event handlers, targets
// of forms and early connections to other servers are removed. Of XML other than XHTML and SVG only
// the URLs of style sheets change, since browsers show nothing else of it as links.
//
// Security does not depend on rewriting, whose parser may differ from a browser's. Policy, an
// answer's Content-Security-Policy, forbids all scripts and all loading from elsewhere. Rewriting
// makes links work.
package replay

import "strings"

// Policy is the Content-Security-Policy of every stored page, rewritten or not. In the sandbox no
// script runs, no form is sent, and no page redirects by itself. The page keeps its origin;
// otherwise browsers would load its parts without the reader's credentials. Without scripts a page
// can do nothing else with it.
const Policy = "sandbox allow-same-origin allow-popups allow-top-navigation-by-user-activation; " + FramePolicy

// PolicyWithForm is Policy for a page below a banner that has a form. Forms may be sent to action
// alone, which must answer nothing but GET: then a form of the page itself can do only what a link
// can do.
func PolicyWithForm(action string) string {
	return strings.NewReplacer("sandbox ", "sandbox allow-forms ", "form-action 'none'", "form-action "+action).Replace(Policy)
}

// FramePolicy is the Content-Security-Policy of rewritten pages in frames. They are not in a
// sandbox, since a page in a sandbox cannot navigate other frames, which the menus of old pages do.
// Scripts and loading from elsewhere are forbidden all the same. A frame's sandbox attribute would
// not help: it applies to all frames within. test/replay tries in Chromium what such a frame can
// do.
const FramePolicy = "default-src 'self' data:; script-src 'none'; frame-src 'self'; style-src 'self' 'unsafe-inline' data:; connect-src 'none'; " +
	"worker-src 'none'; manifest-src 'none'; form-action 'none'; base-uri 'none'"
