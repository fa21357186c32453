// Package balance decides which robot collects which host. It is pure: costs go in; plans and moves
// come out. It reads and writes nothing, takes no time from a clock, and gives the same plan for
// the same input.
//
// The cost of a host at a robot is the time by which it lengthens the robot's night, in
// milliseconds: the transfer time of its pages there, measured or estimated (t_ij in paper 001,
// 4.2.4), divided among the transfers that the robot makes at once. A night ends when the robot
// with the most work ends. So a plan is judged by its makespan, the highest sum of any robot,
// against a proven lower bound. It is not judged by how even the sums are: they can be very even
// with every host at the wrong robot.
//
//   - Optimal makes a plan from nothing: prices on the robots' time, repair, and local search.
//     The prices solve the Lagrangian dual of scheduling on unrelated machines, which is also the
//     bound.
//   - Replan changes yesterday's plan by as few moves as bring it near the bound.
//     ReplanApart does so if some items must go to different robots.
//   - Paper levels between neighbours in a spanning tree of robots, as in paper 001 (4.2.6-7).
//   - Shipping and Trigger move uncollected work along the tree while the robots run (paper 000,
//     3.3).
//   - Take chooses the hosts that an idle robot takes over from others.
//   - Distance estimates the costs of pairs that nobody has measured; Probes chooses which to
//     measure.
//   - Pace says when a robot ends. It is bound by its longest chain of visits to one address, by
//     the number of its transfers at once, or by its line. Seen.Learn learns the pace from a
//     night's heartbeats. Costs.WithChains brings the chains into plans.
//   - Split says into how many parts a host must be split to fit into a robot's window.
package balance
