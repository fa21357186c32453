// Package servicekey keeps the keys with which a service signs receipts, hand-overs and links.
//
// One key signs at a time: the one in table service_key. Each process asks the database which it is
// before it signs, so all of them change over with one transaction, and none signs with a key that
// it should not have any more. A process that cannot get the private half signs nothing.
//
// A rotation has two steps. Announce makes the next key and lets the old one sign a
// wire.KeyStatement about it; robots learn it while the old key still signs. Use lets the next key
// sign. Both may be repeated after a crash. Replace is for a stolen key, whose statements prove
// nothing: no robot can follow.
//
// # Links
//
// LinkSigner signs links that need no log-in: whoever has the link may open it. The secret of a
// LinkSigner is derived from the service's key, so no signature is stored.
package servicekey
