//go:build !linux

package update

import "syscall"

func childAttributes() *syscall.SysProcAttr { return nil }
