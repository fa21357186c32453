// Package watch tells consumers of changes (paper 004): who names a page, a form's
// answer, the pages below an address or a host hears, by mail, by webhook or in a feed,
// when a visit has found it new, changed, gone or back, with links to the stored page and to what
// is different in it.
//
// The idea is that nothing is looked for: the archive's own change feed says what was
// published, and each segment's index says of which pages. Three steps follow one another,
// each durable, and each can be done again:
//
//   - A Follower reads the feed behind its place and turns what concerns a watch into
//     notices. Notices and the new place are written in one transaction, and a notice's
//     name follows from watch, page and time: there is one, whoever finds it how often.
//   - With the notice come its deliveries, a row for mail and one for the webhook.
//   - A Deliverer sends what is due and tries again what failed, for days, then gives it
//     up; what the other side refuses for good (a 5xx at the address or the letter, a webhook's 410) ends that way of
//     telling, and the list of watches says why. It is told at least once: a kill between sending and noting that
//     sends it once more, a minute or two later. A call then has the same webhook-id and the same
//     notice ID; a mail has the same Message-ID, unless more has become due meanwhile and comes with it.
//
// A webhook that fails gets one call at a time, ever more rarely, however many notices wait for it.
// Its consumer is told the status of its answer and nothing else of it.
//
// Robots learn of watches from the manager, which reads the same table: see
// manager/PROTOCOL.md. A form's answer is kept under the form's address and its fields, as
// pywb has it: see FormURL.
package watch
