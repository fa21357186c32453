// Package batch stores the segments that a robot is writing, makes batches of them, and keeps the
// batches until the service has published them.
//
//	open/<host>@<segment>.seg        one for each host, growing
//	open/<host>@<segment>.seg.links  the links of its pages
//	sealing/<batch>/<same name>      segments that are being made into a batch
//	sealing/<batch>/coverage.tsv     what was not collected (Ledger)
//	spool/<batch>.tar.gz, .manifest  complete and signed; the manifest is written last
//	spool/quarantined/…              refused by the service, kept for the operator
//	chain.json                       number and digest of the last manifest
//
// Moving segments to sealing/<batch> fixes the batch's name and content. Everything after that can
// be repeated from the files: Open completes what a crash has left in sealing. The segments are
// deleted only after the manifest is durable and in the chain.
//
// # What was not collected
//
// Ledger counts, by reason, the pages that were not collected. The next batch takes the counts
// along.
//
// The ledger is a file with a line for each Uncollected, written at once so that a crash loses
// none:
//
//	<kind> TAB <reason> TAB <host> TAB <n> TAB <url> LF
//
// The ledger does not list what was collected: the batch's indexes do.
//
// Links are cut for these reasons. Unless noted otherwise, each count is of links:
//
//	depth           more links away from a seed than page.max_depth
//	length          with more than 2,048 bytes of path and query, or longer than a URL may be
//	host_full       the host has page.max_per_host URLs in this cycle
//	host_name       the name cannot be that of a host
//	redirects       the next redirect in a chain that is too long
//	path_repeats, calendar, parameters
//	                page.Trap
//	page_links      beyond the first 20,000 of a page
//	page_hosts      to hosts of others, beyond the first 100 hosts that a page names
//	sitemap_links   beyond the first 100,000 of a sitemap or feed
//	page_bytes      counts pages that are longer than the 8 MiB that are searched
//	sitemap_bytes   counts sitemaps and feeds that are longer than 50 MiB
//	form_fields     counts forms with more fields than are sent
//	not_recorded    followed, but beyond the first 1,000 of a page and so not in the archive
//
// # Uploads
//
// Uploader sends batches from the spool to the service and waits until the service has published
// them.
//
// A batch is sent with tus 1.0 over HTTP, or with FTP, plain or with AUTH TLS. In either protocol
// the batch is sent first and its manifest last, and an interrupted upload is continued. Either may
// pass an HTTP CONNECT or SOCKS5 proxy.
//
// # Several targets
//
// Targets are ways to one service, in the order of preference. A target that cannot be reached, or
// that accepts nothing at the moment, is not used for a time that grows with each failure;
// meanwhile the batch goes to the next target. So a dead target does not delay the others. If one
// batch fails at one target, that batch may still go to other targets, and other batches to that
// target. Retry-After (over FTP: "again in N s") is obeyed, and extended by up to a quarter.
//
// # Receipts
//
// A batch leaves the spool only when the service has signed a receipt for exactly its bytes. A
// receipt in state published removes the batch. What happens after state quarantined depends on its
// reason:
//
//	sha_mismatch       bytes were changed in transit, or on a disk. If the robot's copy is intact,
//	                   it is sent again under the same ID, at most twice. Otherwise, or if this
//	                   did not help, it is put aside.
//	truncated          the batch itself is wrong, and the same bytes would be wrong again: put
//	corrupt_member     aside. Its hosts' pages are archived in full in the next cycle.
//	path_escape
//	link_entry
//	bomb_ratio
//	host_not_assigned  the service has the batch, and its operator can still release it. The
//	clock              robot's copy is put aside.
//	id_reuse           the service has another batch with this ID, so the data folder is a copy,
//	                   or was restored from a backup: put aside.
//	bad_signature      the robot signs with another key than it joined with: put aside.
//	any other          put aside.
//
// A batch that is put aside goes to spool/quarantined; <batch>.reason has the reason and what to
// do. The other batches go on.
//
// Answers without a signature may come from a proxy, so they never decide about a batch: the
// uploader asks for the receipt. If there is none, the batch stays in the spool and is tried again,
// at most hourly. This is the case for wrong credentials, and for a service that is full or down.
// The only exception is too_large (413, FTP 552): a batch that the service could never store is put
// aside as if a receipt said so.
package batch
