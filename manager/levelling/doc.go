// Package levelling decides from the costs of hosts which robot collects which host, and moves the
// hosts accordingly.
//
// Once a day it makes a plan for all hosts (Rebalance). While the robots work, it hands on hosts
// that were not begun: to idle robots, and along the robots' tree if backlogs differ (paper 000,
// 3.3). It takes hosts from a robot only when the robot's heartbeat has just said which hosts it
// has begun. At any other time the robot might begin a host that is being moved, and would fetch
// the host's pages for nothing. Hosts that were begun go to idle robots only from a robot that
// cannot visit them as often as it may.
//
// Package balance makes the decisions, without side effects. This package reads its input from the
// database, in a snapshot, and writes the results.
//
// # Costs
//
// Book keeps what hosts cost robots, from the robots' logs: requests, bytes and transfer time by
// the hour. The planner works from these.
package levelling
