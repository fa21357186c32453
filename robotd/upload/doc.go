// Package upload brings batches from the spool to the service and waits until
// the service has published them.
//
// A batch goes by one of two ways: tus 1.0 over HTTP, or FTP. By either the
// batch comes first and its manifest last, and either goes on where it was
// broken off. Only a receipt that the service signed and that says published
// lets the batch leave the spool; one that says quarantined puts it aside with
// its reason. Each batch has its own back-off, so that one the service will not
// take keeps no other waiting.
package upload
