package db

import (
	"sync"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// reservePages gives SQLite 9 MiB of memory for the pages that all its connections have read.
//
// When one connection writes, the others forget all pages that they have cached. Without the
// reserve they give the memory back to the system and ask for it anew, which made a list of 1,000
// hosts five times as slow. Pages beyond the reserve are handled as without it. If the process has
// used SQLite before, there is no reserve.
//
// See https://sqlite.org/malloc.html, SQLITE_CONFIG_PAGECACHE.
var reservePages = sync.OnceFunc(func() {
	const pages = 2048
	const size = 4096 + 512 // a page, and SQLite's notes about it
	tls := libc.NewTLS()
	defer tls.Close()
	memory := libc.Xmalloc(tls, pages*size)
	args := libc.NewVaList(memory, int32(size), int32(pages))
	defer libc.Xfree(tls, args)
	if sqlite3.Xsqlite3_config(tls, sqlite3.SQLITE_CONFIG_PAGECACHE, args) != sqlite3.SQLITE_OK {
		libc.Xfree(tls, memory)
	}
})
