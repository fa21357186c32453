// Package wire holds what crosses between a robot and the service, and between
// the service's own rooms: the batch manifest and its signature, the receipt,
// the names of batches, and the shapes of the join exchange. The four services
// never import one another; this package, the object store and the database are
// where they meet.
//
// Everything here is plain data with its encoding and its validation. Integers
// that count bytes are int64; digests are lower-case hexadecimal SHA-256 unless
// a field says otherwise; times are UTC.
package wire
