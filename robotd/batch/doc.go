// Package batch stores the segments that a robot is writing, makes batches of them, and keeps the
// batches until the service has published them.
//
//	open/<host>@<segment>.seg        one for each host, growing
//	open/<host>@<segment>.seg.links  the links of its pages
//	sealing/<batch>/<same name>      segments that are being made into a batch
//	sealing/<batch>/coverage.tsv     what was not collected (package coverage)
//	spool/<batch>.tar.gz, .manifest  complete and signed; the manifest is written last
//	spool/quarantined/…              refused by the service, kept for the operator
//	chain.json                       number and digest of the last manifest
//
// Moving segments to sealing/<batch> fixes the batch's name and content. Everything after that can
// be repeated from the files: Open completes what a crash has left in sealing. The segments are
// deleted only after the manifest is durable and in the chain.
package batch
