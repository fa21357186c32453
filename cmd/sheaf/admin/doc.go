// Package admin has the commands by which operators look after a running service: sheaf host,
// robot, account, batch and so on. Each asks one of the service's operations, which are defined
// where their data is (package route), and prints the answer as a table or as JSON. Commands that
// work with the service's own files, such as sheaf fsck, are in package main; they share the flags
// here.
package admin
