// Package api has the paths of the HTTP API for consumers and operators, and the JSON documents of
// its requests and answers. The service, its command line and its clients share them.
//
// A document that is mostly a domain type's own data is beside that type: accounts in
// serve/account, collections in archive/catalog, watches in serve/watch, transfers in
// internal/transfers, robots in manager, batches in ingest. The robots' protocol is in
// internal/wire. Operations on the paths are defined beside their handlers, with internal/route;
// cmd/sheaf/service describes them all.
//
// # Change feed
//
// The change feed has three types: Event, which has a sequence number; Page, the answer of
// /v1/changes; and Tile, which gives the names of the files below /feed.
//
// Each event gets a unique number, in the order of publication. An account sees only the events of
// its scope, so its numbers have gaps. The event of a publication is left out once the publication
// is taken down or has expired; the removal is an event of its own. So a client that begins at 0
// learns exactly what exists now, and a client that continues from a number learns all changes
// since.
//
// The same events are in files below /feed. The name of a file has the first and the last number
// that it covers: 1, 10, 100, 1,000 or 10,000 numbers, aligned. A file appears once all its numbers
// are assigned. After that it changes only when hosts in it are taken down or expire, which removes
// events. Listings show a larger file instead of the smaller files that it covers; the smaller
// files can still be opened by name. Tiles returns the fewest files.
package api
