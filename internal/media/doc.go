// Package media reads bodies of HTTP as browsers do: their type, their content codings, their
// charset, the tokens of pages, and the addresses in style sheets.
//
// # Types
//
// TypeOf and Sniff find out of what type a body is, by its Content-Type and its first bytes, as
// browsers do. Robot, import and replay use it alike, so that what one of them takes for a page is
// one to the others too.
//
// The header is read as "extract a MIME type" of the Fetch standard reads it, the bytes as the MIME
// Sniffing standard does. Only where there is no valid type do the bytes decide: browsers show what
// came as text/plain as text.
//
// # Content codings
//
// Decode removes the content codings of HTTP bodies (RFC 9110, 8.4), for the robot and for the
// import of foreign files. It is as forgiving as browsers are, because servers often declare wrong
// codings.
//
// # Charsets
//
// DetectCharset finds out in which encoding a page's bytes are written. Old Japanese pages often do
// not say, or say something else.
//
// # Style sheets
//
// StyleRefs finds the addresses in style sheets: url(…), @import "…" and the strings of
// image-set(…). Robots follow them and replay rewrites them, so both must see the same ones.
//
// # Tokens of pages
//
// A Tokenizer reads the tokens of pages, as HTML or as XML. Robots search pages with it and replay
// rewrites them with it, so both see the same elements.
//
// The tokens are those of golang.org/x/net/html, which keeps each token's bytes and accepts what an
// XML parser would refuse: feeds with stray ampersands, pages in any encoding that contains ASCII.
// This package adds what differs in XML and in the SVG and MathML of HTML: no element's content is
// raw text, an element without content ends where it begins, and CDATA has no character references.
package media
