// Package board has the pages for operators: what is wrong now, the buffers, robots, hosts that
// wait for a decision, levelling, releases, editions and store, watches that fail, transfer rates,
// and who may read what: accounts, access rules, take-downs, collections and operators. The pages
// have forms for an operator's daily work; for other work they name the command. Every number is a
// link to its details, and every list is paged.
//
// # Partners
//
// Partners is for the people at the sites that run robots. A page shows one robot to whoever has
// its signed link:
//
//	/robot/<name>/<link>/<signature>
//
// It changes nothing and shows no other robot. If the robot is silent or stuck, its contact gets
// two mails: when that begins and when it is over.
package board
