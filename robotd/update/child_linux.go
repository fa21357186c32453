package update

import "syscall"

// childAttributes makes the kernel end the child when its supervisor ends, for any reason: an
// orphan would keep the robot's folder locked and block the next one.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
