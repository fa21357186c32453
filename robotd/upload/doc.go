// Package upload brings batches from the spool to the service and waits until
// the service has published them.
//
// A batch goes by one of two ways: tus 1.0 over HTTP, or FTP, plain or with
// AUTH TLS. By either the batch comes first and its manifest last, and either
// goes on where it was broken off. Either may lead through an HTTP CONNECT or a
// SOCKS5 proxy.
//
// # Several targets
//
// Targets are ways to one service, in the order of preference. A target that
// cannot be reached, or that takes nothing now, is left alone for a time of its
// own that grows with each failure, and the batch goes to the next at once; so a
// dead target starves no other. What goes wrong with one batch at one target
// keeps neither that batch from the other targets nor other batches from that
// one. Retry-After (over FTP: "again in N s") is obeyed, and lengthened by up to a quarter.
//
// # What comes of a batch
//
// Only a receipt that the service has signed, for these very bytes, lets a
// batch leave the spool. One that says published removes it. One that says quarantined
// is dealt with by its reason:
//
//	sha_mismatch       bytes were changed on their way, or on a disk. Where the robot's own
//	                   copy still has its digest it is sent again, under its ID, at most twice;
//	                   where it has not, or this did not help, it is put aside.
//	truncated          the batch itself is wrong, and the same bytes would be wrong again: put
//	corrupt_member     aside. Its hosts' pages are fetched in full in the next cycle.
//	path_escape
//	link_entry
//	bomb_ratio
//	host_not_assigned  judgements, which the service's operator may set aside: the service has
//	clock              the batch and can release it. The robot's copy is put aside.
//	id_reuse           the service has another batch under this ID, so the data folder is
//	                   a copy, or was restored from a backup: put aside.
//	bad_signature      the robot signs with another key than it joined with: put aside.
//	any other          put aside.
//
// Put aside is spool/quarantined, with the reason and what to do in <batch>.reason;
// the next batch goes on. Answers that are not signed (a refusal in HTTP's or FTP's own
// words, which a proxy may have made up as well) only bring the receipt to be asked for;
// where there is none the batch stays in the spool and is tried again, at most
// hourly: wrong credentials, a service that is full, or one that is away. The one
// exception is too_large (413, FTP 552): a batch that the service's disks could never
// take is put aside like one with a receipt that says so.
package upload
