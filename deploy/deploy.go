// Package deploy holds the files that installing the programs needs: example settings, the robots'
// install script, guides. The service hands the script out.
package deploy

import _ "embed" // for the files

// InstallRobot is the shell script that installs, upgrades and removes a robot.
//
//go:embed install-robot.sh
var InstallRobot string

// Sheaf and Robotd are the two programs' settings files in YAML. They have every setting with its
// default, explained by a comment.
//
//go:embed sheaf.yaml
var Sheaf string

//go:embed robotd.yaml
var Robotd string
