// Package batch keeps the segments that a robot is writing, makes batches of
// them and holds the batches until the service has published them.
//
//	open/<host>@<segment>.seg        one per host, growing
//	open/<host>@<segment>.seg.links  the links of its pages
//	sealing/<batch>/<same name>      sealed, on their way into a batch
//	sealing/<batch>/coverage.tsv     account of what was not collected (package coverage)
//	spool/<batch>.tar.gz, .manifest  whole and signed; the manifest is written last
//	spool/quarantined/…              refused by the service, kept for the operator
//	chain.json                       number and digest of the last manifest
//
// The name of a batch and the segments in it are fixed by moving the segments to
// sealing/<batch>. All after that can be done again from the files at hand: Open
// finishes what a crash left in sealing. The segments go when the manifest is
// durable and in the chain, never before.
package batch
