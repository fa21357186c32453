// Package serve wires together what consumers read. In this list, each package knows only those
// before it:
//
//	account    who may read, what, when and how fast; rules that hide some of it
//	library    what an account sees of the catalog: hosts, their files, what has changed, and
//	           what robots did not collect
//	tree       all files, by path: what FTP and HTTP show
//	records    single records, and the language in which consumers ask for them
//	results    files of what a query has found, such as bundles and tables; jobs that make them; and
//	           makers, which make those of volumes beside publication
//	reading    all of these together
//
// Below records are replay, which makes a stored page readable, and texts, which takes the text out
// of it. Over these packages are watch, which tells consumers of changes, and the protocols, ftpd
// and httpd.
package serve
