// Package status is the state of a robot, as `robotd status --json` prints it. Package control
// shows it to people, and to Prometheus.
package status
