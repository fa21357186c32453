// Package revisit decides which pages are visited again, and when.
//
// A Chooser decides which of a host's known pages a cycle visits. Learn learns from each visit how
// the page changes. Hours learns how fast the server is at each hour, and decides when a host's
// visit begins. Servers keeps that in a file.
//
// # Watched pages and orders
//
// Pages has the pages that consumers watch (paper 004). Orders has the hosts whose visit an
// operator has ordered. Both are visited between and within cycles, before all other pages.
package revisit
