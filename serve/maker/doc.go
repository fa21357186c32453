// Package maker makes, beside publication, what the tree offers of volumes.
//
// # Tables
//
// TableMaker makes tables of what each edition brought, beside publication: of each volume of each
// top-level domain the records, the hosts and the links (see packages tree and tables).
//
// A table is made once, for what an account without special rights sees of the volume. When
// something in the volume is taken down, comes back or is no longer hidden, the table is made
// again; until then nobody sees it. Only the newest editions have tables, and the largest ones of
// the newest days.
//
// # Current volumes
//
// CurrentMaker makes what the tree needs to offer the latest version of every page of a domain in a
// few large files (see package tree, Current).
package maker
