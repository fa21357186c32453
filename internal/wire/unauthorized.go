package wire

import "errors"

// ErrUnauthorized says that a robot's name and secret do not belong together, or no longer do.
var ErrUnauthorized = errors.New("robot's name or secret is wrong, or the robot was revoked")
