// Package fetch gets one page over one connection.
//
// Each fetch makes its own connection, instead of taking one from a pool. So the bytes on the wire
// are counted, the header block is kept as it came, the rate is checked from the first byte on, and
// no second connection to an address is opened without the scheduler. A Run gets several pages over
// one connection. Redirects are not followed. Every fetch is bounded in time, rate, header, body
// and ratio of compression.
//
// # Hands
//
// Other machines of a robot's site can do the work of its turns: they are its hands. The robot,
// here the head, keeps frontier, politeness and batches. A hand fetches, searches and deflates
// pages.
//
// A hand asks the head by HTTP over TLS, on which both prove who they are by certificates of the
// head's own authority (InviteHand). The head refuses the hand with a reason, or switches protocols
// (RFC 9110, section 7.8); then the connection carries messages both ways. An address belongs to
// one of the connected hands by rendezvous hashing (Thaler and Ravishankar, 1998). The head gives a
// turn to a hand when its gate gives the turn, and gives the address back when the hand has
// answered.
//
// A hand may make requests only for a while (Terms.Lease) after its last ping that the head has
// answered, on a clock that does not stop. So the head knows when a hand that it has lost makes no
// further request, and only then counts the hand's turns as not made.
package fetch
