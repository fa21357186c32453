// Package crawl visits the hosts of a cycle until none of them has anything left. Between two
// cycles it visits the hosts with a watched page that is due.
//
// # Stages
//
// The pipeline takes the hosts of a crawl through its stages. The gate hands out a host whose
// address may be visited. A turn then passes fetch, extract and store. Only when its page is stored
// does the address go back to the gate, so a host has one page in hand at a time. By setting, a run
// fetches several pages over one connection.
package crawl
