// Package watch tells consumers of changes (paper 004). A consumer names a page, a form's answer,
// the pages below an address or a host. When a visit finds such a page new, changed, gone or back,
// the consumer is told by mail, by webhook or in a feed, with links to the stored page and to the
// differences.
//
// Nothing is searched for. The archive's own change feed says what was published, and each
// segment's index says of which pages. There are three steps. Each is durable, and each can be
// repeated:
//
//   - The follower reads the feed behind its place and makes a notice of each change that concerns
//     a watch. It writes notices and its new place in one transaction. A notice's ID follows from
//     watch, page and time, so there is one notice however often the change is found, and by whom.
//   - The follower also writes the deliveries of a notice: a row for the mail, one for the webhook.
//   - The deliverer sends what is due. It tries again for days what has failed, and then gives it
//     up. If the other side refuses for good (a 5xx for the address or the mail, a webhook's 410),
//     it sends nothing more that way, and the list of watches says why. A notice is delivered at
//     least once: after a kill between sending and noting it is sent again, a minute or two later.
//     A call then has the same webhook-id and the same notice ID. A mail has the same Message-ID,
//     unless more notices have become due meanwhile and are in it too.
//
// A webhook that fails gets one call at a time, and ever fewer, however many notices wait for it.
// Its consumer is told the status of its answer and nothing else of it.
//
// Robots learn of watches from the manager, which reads the same table: see manager/PROTOCOL.md. A
// form's answer is kept under the form's address and its fields, as in pywb: see FormURL.
package watch
