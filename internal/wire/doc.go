// Package wire has the types that robots and the service exchange, and those that the parts of the
// service exchange with each other: the batch manifest and its signature, the receipt, the names of
// batches, the host list, the collection log, and the messages for joining. robotd, ingest, manager
// and serve do not import one another; they share only this package, the object store and the
// database.
//
// The types are plain data with encoding and validation. Integers that count bytes are int64;
// digests are lower-case hexadecimal SHA-256 unless a field says otherwise; times are UTC.
package wire
