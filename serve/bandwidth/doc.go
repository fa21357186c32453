// Package bandwidth shares out the bytes that are sent: how many a second an
// account gets, by the time of day; how many a day; and how the service's own
// line is divided among those who want it.
//
// The idea is one question, asked before each piece of a transfer: how many of
// the next n bytes may be moved now? [Flow.Take] waits until the answer is not
// none. A piece is some thirtieth of a second's worth, so that what changes meanwhile
// (the hour, the settings) takes effect at the next.
//
// Two gates follow one another:
//
//   - the account's rate. All its transfers queue for it in turn, a piece each, so
//     each gets as much as the others, however many there are. Of an account that
//     is many people's, anonymous, those from one address (of IPv6, a /64 network)
//     queue among themselves first, one behind the other, and at a rate of the address's
//     own where there is one. So addresses get as much as one another, at both gates;
//   - the line's rate, where there is one. Here the accounts take turns, not
//     their transfers: who opens ten connections gets no more than who opens one.
//     This is start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996, section 2):
//     a piece's tag is the larger of the tag that is being served and the end of
//     the account's previous piece, and the smallest tag is served first. What an
//     account leaves unused goes to the others.
//
// A day's quota is looked at when a transfer begins: what has begun is finished,
// but a day's bytes never come to more than twice the quota. The count lies in
// the database, where all processes of the service add to it every five seconds, and
// once more when the last transfer has ended at a stop. So a process knows what the
// others have moved five seconds late, and one that is killed takes its last five
// seconds' bytes with it: by so much, at the line's rate, a quota may be exceeded. While the database is away
// each process goes by what it knows, and adds what it has moved when that is back.
//
// Rates are kept by each process for itself: of n serve processes each gives an
// account its whole rate.
package bandwidth
