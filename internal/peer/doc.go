// Package peer tells which client a connection or a request comes from: what counts as one client,
// and, where trusted proxies stand in between, the client's own address.
//
// # Public addresses
//
// IsPublic tells addresses of the public Internet from those that lead to a private network, to the
// machine itself, or nowhere; IsPublicHost does the same for hosts by their names. Robots and
// webhooks go where strangers say: they connect to public addresses only.
//
// # Connections
//
// Guard limits the connections of an HTTP server, in total and from one address. If there is no
// room for a new connection, the connection that has been idle longest is closed; only if none is
// idle, the new one is. So thousands of connections that are opened and left idle lock nobody out.
package peer
