// Package replay shows stored pages as they were: it rewrites what they refer to so
// that a reader stays within the archive and in its time, and tells in which words two
// versions of a page differ.
//
// A page is rewritten as it streams, byte by byte in its own encoding: only the
// attributes and style sheets' addresses that lead somewhere change, and what is
// written instead is ASCII. Encodings whose markup cannot be read as ASCII (ISO-2022-JP,
// UTF-16) are the exception: those pages leave as UTF-8. Scripts, handlers, forms'
// targets and early connections to other servers are left out.
//
// That no script runs and nothing is loaded from elsewhere does not rest on the
// rewriting, whose parser may see other markup than some browser does: Policy, an
// answer's Content-Security-Policy, forbids both. Rewriting is what makes links work.
package replay

// Policy is the Content-Security-Policy of every stored page, rewritten or not. In the
// sandbox no script runs, no form is sent and no page forwards by itself. The page keeps
// its origin, without which browsers would fetch its parts without the reader's
// credentials; with scripts off it gains nothing else by that.
const Policy = "sandbox allow-same-origin allow-popups allow-top-navigation-by-user-activation; " + FramePolicy

// FramePolicy is that of rewritten pages in frames. A page in a sandbox cannot lead another frame
// anywhere, and that is what the menus of old pages do; scripts and what lies elsewhere are forbidden all the same. No
// sandbox attribute of a frame would do better: it binds all frames within, those menus too. test/replay tries in Chromium
// what such a frame might do.
const FramePolicy = "default-src 'self' data:; script-src 'none'; frame-src 'self'; style-src 'self' 'unsafe-inline' data:; connect-src 'none'; " +
	"worker-src 'none'; manifest-src 'none'; form-action 'none'; base-uri 'none'"
