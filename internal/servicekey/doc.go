// Package servicekey keeps the keys with which a service signs receipts, hand-overs and links.
//
// One key signs at a time: the one in table service_key. Each process asks the database for the
// current key before it signs. So one transaction changes the key of all processes, and no process
// signs with an old key. A process that cannot get the private half signs nothing.
//
// A rotation has two steps. Announce makes the next key, and the old key signs a wire.KeyStatement
// about it; robots learn the next key while the old one still signs. Use makes the next key sign.
// Both may be repeated after a crash. Replace is for a stolen key, whose statements prove nothing:
// robots cannot follow such a change by themselves.
//
// # Links
//
// LinkSigner signs links that need no log-in: anybody who has the link may open it. The secret of a
// LinkSigner is derived from the service's key, so no signature is stored.
package servicekey
