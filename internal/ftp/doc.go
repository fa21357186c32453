// Package ftp is the FTP engine of the service: uploads by robots and downloads
// by consumers are two servers on it, each behind a [Handler] that gives every
// login a [Session].
//
// # What it promises
//
// An upload is complete only if everything says so: the data ended cleanly (by
// close_notify where it is encrypted), the control connection was there
// throughout and a moment longer, no ABOR came, and Commit succeeded. A killed
// client's upload is aborted, whichever of its two connections ends first. One
// case no FTP server can tell: a client that closes its data connection early
// and waits for the reply. Completeness of a batch is therefore the digest in
// its manifest, never a 226.
//
// A download is 226 only if all its bytes went out; a failed one ends in a
// reset, so that a client cannot take the break for the file's end. What a
// handler says in an [Error] reaches the client; nothing else from inside does.
//
// What is noted of a download is what its client has acknowledged, and when, where nothing lies
// between the two (package acked). That is followed after the 226, which does not wait for it.
//
// A session may be ended by its handler (Revocable), and a file may set the pace at
// which it is sent (Paced), by sendfile too. Idle connections cost some 20 KB each, both
// ends counted; a client that takes nothing, or next to nothing, is let go.
//
// # How it stands on goftp
//
// goftp.io/server/v2 is used as it is. Its accept and command loops, dispatch,
// login state, working directory and path cleaning run unchanged. It leaves two
// openings, and the engine is made of them:
//
//   - The listener. [Run] hands goftp connections of the engine's own (conn).
//     Each gives goftp at most one line per Read, so nothing stays behind in
//     goftp's buffer; so TLS can begin below goftp (goftp itself never knows),
//     and a watch can read the connection during a transfer. Limits, deadlines,
//     the longest line, Telnet's bytes, PROXY headers and the graceful
//     stop live here too.
//   - The command table. Options.Commands is replaced. A command finds
//     its conn through the session's RemoteAddr, which passes ours through.
//     goftp's own commands run only for what needs no driver (NOOP, QUIT) and
//     for the state that they alone can set: USER, PASS after our check has
//     passed, CWD after our Stat has found a directory.
//
// goftp's data sockets, driver calls, notifiers and rate limit are not used:
// they take aborted uploads for complete, connect wherever PORT says, and build
// listings in memory.
//
// # One transfer
//
// Open or Create, 150, data connection, bytes, its end, for uploads a second
// look at the control connection, then Commit or Abort, Transferred, and
// the reply. Stop of the service, loss of the client and ABOR all cancel the one
// context under which this happens, and its cause is what Abort is told.
package ftp
