// Package balance decides which robot collects which host. It is pure: costs go in; plans and
// moves come out. It reads and writes nothing, takes no time from a clock, and gives the same
// plan for the same input.
//
// The cost of a host at a robot is the time by which it lengthens the robot's night, in
// milliseconds: the transfer time of its pages there, measured or estimated (t_ij in paper 001,
// 4.2.4), divided among the transfers that the robot makes at once. A night ends when the robot
// with the most work ends. So a plan is judged by its makespan, which is the highest sum of any
// robot, against a proven lower bound. It is not judged by how even the sums are: with all hosts at
// the wrong robots they can be very even.
//
//   - Optimal makes a plan from nothing: prices on the robots' time, repair, and local search.
//     The prices solve the Lagrangian dual of scheduling on unrelated machines, which is also the
//     bound.
//   - Replan goes on from yesterday's plan with as few moves as bring it near the bound.
//     ReplanApart does so if some items must go to different robots.
//   - Paper levels between neighbours in a spanning tree of robots, as paper 001 (4.2.6-7) has
//     it.
//   - Shipping and Trigger move uncollected work along the tree while the robots run (paper 000,
//     3.3).
//   - Take chooses what an idle robot takes over from others.
//   - Distance estimates the costs of pairs that nobody has measured; Probes chooses which to
//     measure.
//   - Pace says when a robot ends: its longest chain of visits to one address, the transfers that
//     it makes at once, or its line binds it. Seen.Learn takes that from a night's heartbeats.
//     Costs.WithChains brings the chains into plans.
//   - Split says into how many parts a host must be split to fit into a robot's window.
package balance
