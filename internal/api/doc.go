// Package api has the paths of the HTTP API for consumers and operators, and the JSON documents
// that the API takes and answers. The service, its command line and its clients share them.
//
// Documents that are mostly a domain type's own data lie beside that type: of accounts in
// serve/account, of collections in archive/catalog, of watches in serve/watch, of transfers in
// internal/transfers, and what operators see of robots and batches in manager and ingest. The
// robots' protocol is in internal/wire. Operations on the paths are defined beside their handlers,
// by internal/route; cmd/sheaf/service describes them all.
//
// # Change feed
//
// Event, Page and Tile are the change feed's: events with sequence numbers, the answer of
// /v1/changes, and the names of the files below /feed.
//
// Each event gets a unique number, in the order of publication. An account sees the events of its
// scope, so its numbers have gaps. Something published that was taken down or has expired is left
// out; its removal is an event of its own. So a client that begins at 0 learns what exists now and
// nothing else, and one that continues from a number learns all changes since.
//
// The same events are in files below /feed. The name of a file has the numbers that it covers: 1,
// 10, 100, 1,000 or 10,000 of them, aligned. A file appears once all its numbers are assigned.
// After that it changes only when hosts in it are taken down or expire, which removes events.
// Listings show larger files instead of the smaller ones that they cover; those can still be opened
// by name. Tiles returns the fewest files.
package api
