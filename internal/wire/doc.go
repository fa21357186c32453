// Package wire has the types that robots and the service exchange, and types that the parts of the
// service exchange: the batch manifest and its signature, the receipt, the names of batches, the
// host list, the collection log, and the messages for joining. robotd, ingest, manager and serve do
// not import one another; they share only this package, the object store and the database.
//
// The types are plain data with encoding and validation. Integers that count bytes are int64;
// digests are lower-case hexadecimal SHA-256 unless a field says otherwise; times are UTC.
//
// # Limits
//
// Robots and the service must agree on two limits: how large a page may be, and how much a host's
// part of a batch may grow when it is decoded. If a robot keeps these limits, the service does not
// refuse a batch for its size.
//
// # The rule of expansion
//
// A host's part of a batch is a run of cells, a cell a record. The rule holds at the end of every
// cell, and of the links cell, counted from the start of the part:
//
//	decoded <= Grace + MaxRatio * stored
//
// "stored" is the number of bytes of the cells so far, as they lie in the batch. "decoded" is the
// number of bytes that their deflated parts yield: tar headers, record heads (the WARC header with
// the HTTP header) and bodies. The index cell does not count, because the verifier compares each of
// its lines with the records before it and stops at the first that it does not expect. A part of
// ordinary pages gains room with every page. The rule stops a part that consists of little else
// than bodies of zeros.
//
// # Who applies it
//
//   - The robot's fetcher keeps at most PageBytes of a body, or what its setting page.max_bytes
//     says, which may be no more than MaxBody. It marks what it has cut with WARC-Truncated: length.
//   - [sheaf/archive.Writer] keeps the rule of expansion. It knows what each body was deflated to,
//     which the fetcher cannot. It cuts a body where the next bytes would break the rule, and marks
//     the record with WARC-Truncated: length, which the returned Cell tells. It does so also where the
//     caller gave the digest of the whole body: the record then has the digest of what was
//     kept. Links for which there is no room are left out. A record that has no room even without
//     its body is refused with archive.ErrRefused.
//   - The robot must look at the Cell that was stored, not at what it asked for: a page that was
//     cut must not be remembered as fetched in full, and is counted as truncated in the robot's
//     coverage.
//   - The service's verifier refuses a part that breaks the rule with the reason bomb_ratio.
//
// # Releases
//
// Release is the signed description of a release of the robot's program. The operator signs it, the
// service passes it on without parsing it, and each robot and install script verifies it.
//
// A release is a text, so that shell scripts can parse it. It is the file that minisign signs:
//
//	sheaf robotd release
//	counter 7
//	version 0.2.0
//	expires 2027-02-21T00:00:00Z
//	floor 3
//	file linux-amd64 12345678 <SHA-256 in 64 hexadecimal digits>
//
// Threats and terms are those of The Update Framework (TUF, specification 1.0, 1.5.2). The counter
// only rises. So nobody can lead a robot back to a release with known holes (rollback). The expiry
// shows a robot that somebody keeps newer releases from it (freeze). The floor is the lowest
// counter that may still run.
package wire
