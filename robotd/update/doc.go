// Package update replaces the robot's program by the releases that the operators sign,
// and puts the old one back where a new one does not work.
//
// Two processes share the work. The supervisor is the program that the administrator
// installed; it never replaces itself, so nothing that is fetched can break it. It
// starts the program that is at work as its child, again whenever that ends. The child,
// the robot, reports to the manager, is offered a release, verifies and fetches it,
// notes it for trial and ends. The supervisor then starts the new program, beside
// which the old one stays. When the new one has reported in, it says so through a pipe that it was
// given, and is at work from then on. When it has ended three times before that, or the
// trial's time is over, the supervisor kills it and starts the old one.
//
// The folder, update/ in the robot's:
//
//	state.json        what is at work, on trial, seen and put back
//	robotd-7          the program of release 7; at most the one at work and one on trial
//	robotd-8.part     a program that is being fetched; a later fetch goes on with it
//	supervisor.pid    the supervisor's process, locked while it runs
//
// A release is taken only where it is signed with the key that the robot learnt when it
// joined, has not expired, and has a counter that is not below any that was seen. Two
// different releases of one counter are refused too. See package internal/release.
//
// No selfupdate library is used: those replace the running file, and leave nobody
// behind who could put the old one back.
package update
