package update

import "syscall"

// childAttributes have the kernel end the child with its supervisor, however that
// ends: an orphan would hold the robot's folder and keep the next one out.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
