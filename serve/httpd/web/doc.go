// Package web shows stored pages, and the versions of a page, to people and to programs:
//
//	/web/<timestamp>[id_|txt_]/<URL>           a stored page, to read; id_: its bytes; txt_: its text
//	/web/*/<URL>                               the page's versions
//	/timegate/<URL>, /timemap/link|json/<URL>  RFC 7089 (Memento)
//	/diff/<timestamp>/<timestamp>/<URL>        what changed between two versions
//
// # Player
//
// The player is ReplayWeb.page, a player of archives that runs in the browser, at
// /replay/?source=/a/<host>.wacz, if the operator has put its files here. The player runs scripts
// of stored pages. It therefore has an origin of its own.
package web
