// Package serve wires together what consumers read. The packages below know only those before them:
//
//	account    who may read, what, when and how fast
//	content    files: what they are and where their bytes come from
//	visible    the hosts that an account sees in one version of the catalog
//	archives   the files of one host
//	changes    the change feed
//	tree       all files, by path: what FTP and HTTP show
//	records    single records, by URL, host, domain and time
//	bundle     files of records that a query has found
//	coverage   what robots did not collect, and why
//
// Over them are query, the language in which consumers ask for records; jobs, which gathers bundles in
// the background; replay, which makes a stored page readable; watch, which tells consumers of
// changes; and the protocols, ftpd and httpd.
package serve
