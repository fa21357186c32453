package db

import (
	"sync"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// reservePages gives SQLite 36 MiB of memory for the pages that all its connections have read.
//
// Whenever another connection has written, a connection forgets all pages that it has. Without such
// a reserve it gives their memory back to the system and asks for it anew, which made a list of
// 1,000 hosts five times as slow. More pages than these are kept as without a reserve; if SQLite
// is at work already, as in a program that has opened a file elsewhere, there is none.
//
// See https://sqlite.org/malloc.html, SQLITE_CONFIG_PAGECACHE.
var reservePages = sync.OnceFunc(func() {
	const pages = 8192
	const size = 4096 + 512 // of a page, and what SQLite notes about it
	tls := libc.NewTLS()
	defer tls.Close()
	memory := libc.Xmalloc(tls, pages*size)
	args := libc.NewVaList(memory, int32(size), int32(pages))
	defer libc.Xfree(tls, args)
	if sqlite3.Xsqlite3_config(tls, sqlite3.SQLITE_CONFIG_PAGECACHE, args) != sqlite3.SQLITE_OK {
		libc.Xfree(tls, memory)
	}
})
