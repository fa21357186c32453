// Package polite keeps the robot from bothering servers: it obeys robots.txt (RFC 9309), and it
// decides when an address may be visited again.
//
// Every visit must go through a Gate. It is a heap of addresses, ordered by the time when each may
// be visited next. Next removes an address from the heap, and Done puts it back after the visit. So
// two connections to one address cannot happen, whatever the callers do.
//
// # May hosts be visited at all?
//
// Admission decides when hosts may be visited: in the window, while the bytes of the day and the
// month last, while there is room on the disk, while the lease of the hosts lasts, and unless the
// site or the manager has paused the robot.
//
// Guard tells a robot to stop collecting when there is too little space: on its disk, which it
// shares with others, or in its spool, where batches wait to be published.
//
// # Memory
//
// Restraints keeps, across restarts and crashes, until when each host and each address must be left
// alone. Rules keeps the texts of robots.txt files. A robot that forgot would come back too early
// and fetch every robots.txt again.
//
// What is written survives the end of the process at any time. It is not synced, so a power failure
// may lose some of it, which is then learned again. Checksums reveal a line or file that was
// written in part; it is skipped.
package polite
