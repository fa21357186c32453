// Package guard stands before the handlers of the HTTP service, and sends their answers.
//
// Guard finds out whose request it is, refuses what pages of other sites could do in a reader's
// name, bounds how long a client may take and how many requests are under way, and answers errors
// as problem+json (RFC 9457).
//
// Beside Guard are the functions with which all handlers of the HTTP service read requests and
// write answers: links, redirects, encodings, and the service's own address.
//
// Sender sends files to consumers over HTTP, whole or by ranges, and records what they have taken.
package guard
