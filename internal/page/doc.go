// Package page says what a page is: what it says about itself and links to, whether it is a page at
// all, and whether its URL is one of endlessly many.
//
// # Links and texts
//
// LinksAndText and Stream find what a page says about itself and what it links to.
//
// The charset of a page is judged by its bytes if they contradict its declaration (internal/media).
// Links are found as a browser finds them, in one pass over the tokens without a tree. They are
// resolved at the end, since the first <base> holds for earlier links too. Sitemaps and feeds are
// read as a stream, up to the limits of their protocol. Bytes, links and title are bounded, and
// what a bound cuts off is counted. No input causes a panic. The only error is that for a base that
// is no URL.
//
// # Answers that are no pages
//
// Judge finds answers that only look like pages: those that turn a robot away (blocks, challenges),
// those that say "not found" with status 200 (soft 404s), and those of domains that nobody uses
// (parked).
//
// Such an answer must not stand in an archive for the page that it hides. To lose a real page by
// mistake would be worse. So every rule requires little text and two signs: the traces of a
// protection service in header or markup, the status, the title, and the text beside the title. A
// title alone never decides: films, bands and poems have names such as "Access Denied" or "Error
// 404", and their pages are short.
//
// What a host answers for pages that do not exist is learned by a request for such a page. A page
// that looks like that answer is missing too (Sketch).
//
// # Traps
//
// Traps are URLs that a server's program generates without end: paths that repeat themselves,
// calendars that go on for ever, parameters that pile up. Trap, Circles and Calendars find them.
// URLs that these let pass are still bounded by a host's limits of depth, length and pages.
package page
