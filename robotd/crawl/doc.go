// Package crawl visits the hosts of a cycle until none of them has anything left. Between two
// cycles it visits the hosts with a watched page that is due.
//
// # The way of a page
//
// The gate hands out a host whose address may be visited. Its page then passes three stages: fetch,
// extract and store. Only when the page is stored does the address go back to the gate, so a host
// has one page in hand at a time. By setting, a run fetches several pages over one connection.
// Crawl.visit is this way, and calls down: fetch.go with robots.go, extract.go, store.go. How much
// goes on at once is in workers.go, and what is known of a host in host.go.
package crawl
