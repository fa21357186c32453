// Package deploy holds what is needed to install the programs: example settings,
// the robots' install script, guides. The service hands the script out.
package deploy

import _ "embed" // for the script

// InstallRobot is the shell script that installs, upgrades and removes a robot.
//
//go:embed install-robot.sh
var InstallRobot string
