// Package levelling decides who collects which host by what the hosts cost, and carries it out.
//
// Once a day a plan is made for all hosts (Rebalance). While the robots work, hosts that were not
// begun are handed on: to robots that have nothing left, and along the robots' tree where backlogs
// differ (paper 000, 3.3). A robot's hosts are handed on only when its heartbeat has just said
// which hosts it has begun. At any other time it might begin a host that is being moved, and its
// pages would be handed over for nothing. Hosts that were begun are handed on to idle robots, by a
// robot that cannot visit them as often as it may.
//
// The decisions themselves are pure and in package balance. This package reads their input from the
// database, in a snapshot, and writes what comes out.
//
// # Costs
//
// Book keeps what hosts cost robots, as the robots' logs tell: requests, bytes and transfer time by
// the hour. The planner works from these.
package levelling
