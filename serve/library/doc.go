// Package library is what one reader sees of the archive: the hosts, their files, and what changes.
//
// # Views
//
// A Library says which published hosts an account sees, and what it sees of each.
//
// An AccountView is one account's view of one version of the catalog. All answers to a call come
// from one view, so a publication in between changes nothing for the call. A Host is what a view
// has of one host: its segments, and which of their URLs are taken down. A Host does not refer to
// the view, so it may be used after the view is released.
//
// # Files of hosts
//
// A Host computes its files: its archives in every form, the index of each, and the texts beside
// them.
//
// An archive is what one edition brought of the host, what several did, everything (all), or the
// latest version of every page (current). Its files are computed from the segments' indexes and
// copied out of the store in ranges. Texts that must be sorted or chosen (.cdxj, .links.gz,
// MANIFEST and so on) are written once and kept in temporary files, which all readers share.
//
// An Entry describes a file that consumers get, and where its bytes come from: stored ranges,
// joined parts, texts that are written when they are read, and temporary files. A Host computes the
// entries of its files, and other packages those of their own. Open makes a File of an entry for an
// account.
//
// # Changes
//
// Feed reads the change feed: what was published, taken down or has expired, by number, as one
// account sees it. Package api has the feed's format.
//
// # Coverage
//
// FindCoverage says what is not in the archive of a host, and why, by what robots wrote in the
// signed manifests of their batches.
package library
