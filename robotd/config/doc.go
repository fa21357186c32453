// Package config has the settings of a robot, the small files and sockets of its data folder, and
// connections through proxies.
//
// The settings have defaults (deploy/robotd.yaml), and are checked when they are read. Plan says
// when a robot may crawl, when its next cycle begins, and when it sends the collection log, in the
// zone of the window. Plan only computes times; the daemon does the waiting.
package config
