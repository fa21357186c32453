#!/bin/sh
# Before the files are unpacked. A robot that the install script has put here has the same user, the
# same folder and the same unit.
set -eu
if [ -e /usr/local/lib/sheaf-robot/robotd ]; then
	echo "sheaf-robot: a robot is installed here already, in /usr/local/lib/sheaf-robot; it upgrades itself. To have the package instead: sheaf-robot remove" >&2
	exit 1
fi
