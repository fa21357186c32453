// Package client speaks with the manager, the service that gives the robot its hosts: requests P1
// to P5 of paper 001, heartbeats, watches and reports of the robot's program. A robot may have
// several URLs of the manager, any of which will do.
//
// List has the hosts that the manager has assigned to the robot. Assignment keeps the list in a
// file. Identity has the robot's credentials and its key.
//
// What the robot reports outside heartbeats waits in files. CollectionLog has the log of the
// collection. Found has the URLs that the robot found and that other robots collect.
package client
