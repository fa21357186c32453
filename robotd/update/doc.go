// Package update replaces the robot's program by releases that the operators sign, and goes back to
// the old program if a new one does not work.
//
// Two processes share the work. The supervisor is the program that the administrator installed. It
// never replaces itself, so nothing that is fetched can break it. It starts the current program as
// its child, and again whenever the child ends. The child, the robot, reports to the manager and
// may be offered a release. It verifies and fetches the release, records it for a trial, and ends.
// The supervisor then starts the new program; the old one stays beside it. When the new program has
// reported to the manager, it tells the supervisor through a pipe, and is the current program from
// then on. If it ends three times before that, or if the time of the trial is over, the supervisor
// kills it and starts the old one.
//
// The folder update/ in the robot's folder has:
//
//	state.json        the current program, the trial, the highest counter and failed releases
//	robotd-7          the program of release 7; at most the current one and one on trial
//	robotd-8.part     a program that is being fetched; a later fetch continues it
//	supervisor.pid    the supervisor's process ID, locked while it runs
//
// A release is only accepted if it is signed with the key that the robot got when it joined, has
// not expired, and has no lower counter than any release seen. Two different releases with the same
// counter are refused, too. See wire.OpenRelease.
//
// Self-update libraries are not used: they replace the running file, and then nobody could go back
// to the old program.
package update
