// Package balance decides which robot collects which host. It is pure: costs go
// in, plans and moves come out; nothing is read, written or timed here, and the
// same input gives the same plan.
//
// The cost of a host at a robot is the time of transfer in milliseconds that its
// pages took there, or are thought to take (paper 001, 4.2.4: t_ij). A night
// ends when the robot with the most to do ends, so a plan is judged by its
// makespan, the highest sum of any robot, against a proven lower bound; never by
// how even the sums are, for hosts at the wrong robots can be very even.
//
//   - Optimal, the default: prices on the robots' time (the Lagrangian dual of
//     scheduling on unrelated machines, which is also the bound, made sharper by trying where the largest hosts go), repair, and
//     local search.
//   - Replan: from yesterday's plan, as few moves as bring it near the bound.
//   - Paper: the robots' spanning tree and levelling between its neighbours, as
//     paper 001, 4.2.6-4.2.7 has it.
//   - Level and Trigger: the shipping of uncollected work along the tree while
//     the robots run (paper 000, 3.3).
//   - Take: what a robot that has run out of work takes over from others.
//   - Estimate: the costs of pairs that nobody has measured.
//   - Split: hosts that are too large for one robot's window.
package balance
