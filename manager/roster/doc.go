// Package roster keeps the robots: their admission, their credentials, whether they take part, and
// operators' orders to them.
//
// A robot is a name with credentials. An operator admits the name and passes on a one-time token.
// The robot exchanges the token for a secret and registers the key that it signs its batches with.
// Token and secret are 256 random bits; only their SHA-256 is kept.
//
// A robot takes part while it is subscribed and has not lapsed. Only then does it have hosts.
//
// # Releases
//
// Releases keeps the releases of the robot's program and rolls each out in stages: it is offered
// first to 1 % of the robots, then to 10 %, then to all. The next stage begins by itself when the
// robots of the present stage report that they run the release. The roll-out stops by itself if too
// many robots go back to the release before.
//
// A release is signed by the operators. This package verifies the signature when the release is
// published. Robots do not rely on that: they verify it with the key that they got when they
// joined.
package roster
