// Package board has the pages for operators: what is wrong now, the buffers, robots, hosts that
// wait for a decision, levelling, releases, editions and store, watches that fail, transfer rates,
// and who may read what: accounts, access rules, take-downs, collections and operators. What
// operators do daily can be done here; for the rest the pages name the command. Every number leads
// to what it is made of, and every list is paged.
//
// # Partners
//
// Partners is for the people at the sites that run robots. A page shows one robot to whoever has
// its signed link:
//
//	/robot/<name>/<link>/<signature>
//
// It changes nothing and shows no other robot. A mail goes to the robot's contact when it is silent
// or stuck, once when that begins and once when it is over.
package board
