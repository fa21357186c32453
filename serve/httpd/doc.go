// Package httpd serves an archive over HTTP: its files, queries, watches and accounts. Stored pages
// are shown by package web. All handlers stand behind package guard, which also helps them to write
// answers.
//
// Accounts log in by HTTP Basic, and browsers by a session. Files have strong ETags and take Range
// (several too), If-Range and the other conditions; the kernel sends those that are local files
// (sendfile). Scripts of other sites may read (CORS), as players of archives do. Errors are
// problem+json. The library decides what exists and what an account may see.
//
// # Files
//
// Files serves the tree of files and the hosts' archives over HTTP:
//
//	/pub/…                                   the tree; wget -r and rclone can walk its directories
//	/a/<host>.<form>                         the host's current archive
//	/a/<host>/<edition>|current|all.<form>   any of its archives
//	/a/<host>/<day>-<day>.<form>             what the editions of these days brought
//
// Archives are files of the tree, with a name that tells their host. <form> is tar.gz, warc.gz,
// links.gz, members.tar.gz, cdxj or wacz.
//
// # Queries
//
// Queries answers what programs ask about the archive; queries.go lists the operations. A file
// of records that is too large for one answer is made by a job, at /v1/jobs.
//
// # Watches
//
// WatchesHandler serves the watches of an account:
//
//	POST   /v1/watches              begins one: watch.Wish
//	GET    /v1/watches              lists them: watch.WatchList
//	GET    /v1/watches/<id>         one, with its latest notices: watch.WatchDocument
//	DELETE /v1/watches/<id>         ends one
//	GET    /v1/watches.atom         the notices of all of them, as a feed
//	GET    /v1/watches/<id>.atom    the notices of one
//
// Links in mails lead to two more. They need no password, as the link has a token. GET shows a
// button, so that programs that look at links in mails change nothing:
//
//	GET, POST /v1/watches/<id>/confirm/<token>
//	GET, POST /v1/watches/<id>/stop/<token>
//
// # Accounts
//
// AccountsHandler serves /v1/admin/accounts, by which operators keep consumers' accounts;
// /v1/tokens, by which consumers keep their tokens; and /v1/admin/access, by which operators say
// who may see what.
package httpd
