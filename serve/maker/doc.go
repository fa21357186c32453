// Package maker makes files from volumes, which the tree then offers. It works beside publication.
//
// # Tables
//
// TableMaker makes tables of each day's records, hosts and links, for each volume of each top-level
// domain (see packages tree and results).
//
// A table is made once, for what an account without special rights sees of the volume. When
// something in the volume is taken down, comes back or is no longer hidden, the table is made
// again; until then nobody sees it. Only the newest days have tables.
//
// Before the tables it asks the tree for what the two newest days changed (see tree.MakeChanges),
// so that readers of its process need not wait for it.
//
// # Texts
//
// Another TableMaker makes the texts of the pages of the newest days, and makes them again when the
// extraction has another version (see package texts). It takes its time, and has its own lease.
//
// # Links
//
// A third TableMaker makes tables of the latest versions' links, sorted by page and sorted by
// target. From the latter the service tells who links to a page.
//
// # Current volumes
//
// CurrentMaker finds which hosts lie in which volume of a domain's latest versions. From that the
// tree offers the latest version of every page of a domain in a few large files (see tree.Current).
package maker
