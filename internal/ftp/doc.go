// Package ftp is Sheaf's FTP server. Robots upload to one such server and consumers download from
// another; each has a [Handler], which gives every login a [Session].
//
// # What it promises
//
// An upload is complete only under four conditions: the data ended cleanly (by close_notify if it
// is encrypted), the control connection stayed open a moment longer than the data, no ABOR came,
// and Commit succeeded. If a client is killed, its upload is aborted, whichever of its two
// connections ends first. No FTP server can notice a client that closes its data connection too
// early and waits for the reply. So the digest in a batch's manifest proves that the batch is
// complete; a 226 does not.
//
// A download is answered 226 only if all its bytes were sent. A download that fails ends in a
// reset, so that the client cannot take the break for the file's end. Of a handler's errors, only
// the text of an [Error] reaches the client.
//
// A download's size and time count the bytes that the client has acknowledged, if no TLS or proxy
// is in between (stream.Meter). They are known only after the 226.
//
// A handler may end a session ([Revocable]). A file may limit the rate at which it is sent, also by
// sendfile ([Paced]). An idle connection costs some 20 KB, both ends counted. A client that accepts
// almost no bytes is disconnected.
//
// # How it uses goftp
//
// goftp.io/server/v2 is used unchanged. It accepts connections, and reads and dispatches commands.
// Package ftp connects to it at two points:
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
// Transferred and the last reply. All of them run under one context. A stop of the service, the
// loss of the client and ABOR cancel it, and Abort gets the cause.
//
// # Control connection
//
// The control connection carries command lines and replies, over TLS if the client wishes. During a
// transfer a Watch reads it; the only command that it knows is ABOR.
//
// # Data connections
//
// A data connection is opened by the server (PORT, EPRT) or by the client (PASV, EPSV). Its bytes
// are counted, and moved by sendfile where possible.
package ftp
