// Package peer finds the client of a connection or a request: which addresses count as one client,
// and, behind trusted proxies, the client's own address.
//
// # Public addresses
//
// IsPublic distinguishes addresses of the public Internet from those that lead to a private
// network, to the machine itself, or nowhere; IsPublicHost does the same for names of hosts.
// Strangers choose the addresses to which robots and webhooks connect, so only public addresses are
// allowed there.
//
// # Connections
//
// Guard limits the connections of an HTTP server, in total and from one address. If there is no
// room for a new connection, the connection that has been idle longest is closed or, if no
// connection is idle, the new one. So thousands of connections that are opened and left idle lock
// nobody out.
package peer
