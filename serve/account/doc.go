// Package account keeps the accounts of consumers and decides what they may fetch, when, how fast
// and how much.
//
// An account has a scope: the domains whose hosts it sees. Nothing else exists for it. Its window
// is when it may fetch, and its rate and quota are how fast and how much a day (see Bandwidth).
// Looking at listings is always allowed. Accounts are rows of the database. If an operator changes
// an account, the change also applies to sessions and files that are open.
//
// # Rules
//
// Rules keeps the rules that say who may see what of the archive, and works out what they hide from
// a reader.
//
// A rule hides what it names from everybody but those to whom it is open: accounts, addresses such
// as those of a reading room, and everybody once an embargo has ended. What several rules name is
// visible only if each of them lets the reader see it, so their order does not matter, and another
// rule never shows more. What no rule names is open.
//
// Hidden is as good as taken down: package library applies both in one place, and files, lists,
// queries and the change feed follow.
//
// # Bandwidth
//
// Meter limits how many bytes are sent: how many bytes a second an account gets, by the time of
// day; how many a day; and how the service's own line is shared among accounts.
//
// Before each piece of a transfer, [Flow.Take] is asked how many of the next n bytes may be sent
// now. It waits until some may. A piece is about a thirtieth of a second's worth, so a change of
// the hour or of the settings takes effect with the next piece.
//
// There are two limits in sequence:
//
//   - The account's rate. All its transfers take turns, one piece each, so each gets the same,
//     however many there are. If many people share an account, as with anonymous, the transfers
//     from one address (of IPv6, a /64 network) first take turns among themselves, and may have a
//     rate of their own. So all addresses get the same, at both limits.
//   - The line's rate, if there is one. Here accounts take turns, not transfers: a client with ten
//     connections gets no more than one with a single connection. This is start-time fair queueing
//     (Goyal, Vin and Cheng, SIGCOMM 1996, section 2): a piece's tag is the larger of the tag being
//     served and the end of the account's previous piece, and the smallest tag is served first.
//     Others get what an account does not use.
//
// A day's quota is checked when a transfer begins. A transfer that has begun is completed, unless
// the day's bytes reach twice the quota. The count is in the database. All processes of the service
// add to it every five seconds, and once more at a stop when the last transfer has ended. So each
// process learns of the others' bytes five seconds late, and a process that is killed loses the
// count of its last five seconds: a quota may be exceeded by that much. While the database is down
// each process uses its own count, and adds it later.
//
// Each process applies rates by itself: with n serve processes an account may get n times its rate.
package account
