// Package media reads bodies of HTTP as browsers do: their type, their content codings, their
// charset, the tokens of pages, and the URLs in style sheets.
//
// # Types
//
// TypeOf and Sniff find the type of a body by its Content-Type and its first bytes, as browsers do.
// Robot, import and replay all use them, so that they agree on which bodies are pages.
//
// The header is read by "extract a MIME type" of the Fetch standard, the bytes by the MIME Sniffing
// standard. The bytes decide only if the header has no valid type: browsers show a body of type
// text/plain as text.
//
// # Content codings
//
// Decode removes the content codings of HTTP bodies (RFC 9110, 8.4), for the robot and for the
// import of foreign files. It is as forgiving as browsers are, because servers often declare wrong
// codings.
//
// # Charsets
//
// DetectCharset finds the encoding of a page's bytes. Old Japanese pages often declare none, or a
// wrong one.
//
// # Style sheets
//
// StyleRefs finds the URLs in style sheets: url(…), @import "…" and the strings of image-set(…).
// Robots follow them and replay rewrites them, so both must find the same URLs.
//
// # Refreshes
//
// CutRefresh parses a refresh of a header or a meta element.
//
// # Tokens of pages
//
// A Tokenizer reads the tokens of pages, as HTML or as XML. Robots search pages with it and replay
// rewrites them with it, so both see the same elements.
//
// The tokens are those of golang.org/x/net/html, which keeps each token's bytes and accepts input
// that an XML parser refuses: feeds with stray ampersands, pages in any encoding that contains
// ASCII. This package adds the rules of XML, and of SVG and MathML in HTML: no element's content is
// raw text, a tag that ends with a slash ends its element, and CDATA has no character references.
package media
