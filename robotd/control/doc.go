// Package control answers the commands of the robot's own user over a local socket: status, pause
// and resume. Metrics and health are also on a loopback address.
//
// # Tap
//
// The tap lets programs on the same machine read the records as they are stored (the producer and
// its consumers of paper 003).
//
// A consumer connects to a Unix socket and reads an endless warc.gz: a warcinfo record, then every
// record that is stored from now on. Each record is one gzip member, with the same bytes as in the
// archive. `socat -u UNIX-CONNECT:tap.sock - | zcat` shows them.
//
// The crawl waits for consumers no longer than a bound. Each consumer has a queue with a bound in
// bytes. If it is full, a record waits for room for up to TapOptions.Wait, and is then dropped.
// After that no record waits for this consumer until half of its queue is empty, so a stuck
// consumer costs one wait and not one for each page. In place of the dropped records comes a
// metadata record with their number. A consumer that takes nothing for a minute is cut off.
package control
