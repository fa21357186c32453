// Package ftp is Sheaf's FTP server. Robots upload to one such server and consumers download from
// another; each has a [Handler], which gives every login a [Session].
//
// # What it promises
//
// An upload is complete only if everything says so: the data ended cleanly (by close_notify where
// it is encrypted), the control connection was there throughout and a moment longer, no ABOR came,
// and Commit succeeded. If a client is killed, its upload is aborted, whichever of its two
// connections ends first. One case no FTP server can tell: a client that closes its data connection
// early and waits for the reply. So the digest in a batch's manifest proves that it is complete,
// never a 226.
//
// A download is answered 226 only if all its bytes were sent. A download that fails ends in a
// reset, so that the client cannot take the break for the file's end. What a handler says in an
// [Error] reaches the client; no other error from inside does.
//
// A download's size and time are those of the bytes that the client has acknowledged, if nothing
// lies between the two (stream.Meter). They are known after the 226, which does not wait for them.
//
// A session may be ended by its handler ([Revocable]), and a file may set the rate at which it is
// sent ([Paced]), by sendfile too. An idle connection costs some 20 KB, both ends counted. A client
// that accepts nothing, or next to nothing, is disconnected.
//
// # How it uses goftp
//
// goftp.io/server/v2 is used unchanged for the loops that accept connections, and read and dispatch
// commands. The server enters it at two points:
//
//   - The listener. [Run] gives goftp control connections. Each returns at most one
//     command per Read, so that nothing stays behind in goftp's buffer. Limits, deadlines, TLS,
//     Telnet and the graceful stop are below goftp, which does not know of them.
//   - The command table. Options.Commands is replaced; of goftp's own commands only NOOP and QUIT
//     remain. A command finds its client through the session's RemoteAddr.
//
// goftp's data connections, drivers, notifiers and rate limit are not used: they take aborted
// uploads for complete, connect wherever PORT says, and build listings in memory.
//
// # Parts
//
// The control connection and the data connections have types of their own. A client has five parts,
// each with its commands: authenticator, ports, tree, transfers and info. They reply through a
// dialogue. The registry counts connections and logins.
//
// # One transfer
//
// A transfer has these steps: Open or Create of the session; reply 150; the data connection, its
// bytes, its end; for uploads a second look at the control connection, then Commit or Abort;
// Transferred and the last reply. A stop of the service, the loss of the client and ABOR all cancel
// the one context under which this happens. Abort is told its cause.
//
// # Control connection
//
// On the control connection command lines come in and replies go out, both over TLS if the client
// wishes. A Watch follows the connection during a transfer; the only command that it knows is ABOR.
//
// # Data connections
//
// A data connection is opened by the server (PORT, EPRT) or by the client (PASV, EPSV). Its bytes
// are counted, and moved by sendfile where possible.
package ftp
