package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// asOwner runs work as the owner of a directory, if this process is root and the directory is
// another user's. The service runs as that user, and must be able to read the files that work
// makes. The settings file becomes readable to the owner's group. Nothing else in this process may
// run meanwhile.
func asOwner(dir, settings string, work func() error) (err error) {
	info, statErr := os.Stat(dir)
	if statErr != nil || os.Geteuid() != 0 {
		return work() // work makes the directory if there is none
	}
	owner := info.Sys().(*syscall.Stat_t)
	if owner.Uid == 0 {
		return work()
	}
	if err := os.Chown(settings, 0, int(owner.Gid)); err != nil {
		return err
	}
	if err := errors.Join(syscall.Setresgid(-1, int(owner.Gid), -1), syscall.Setresuid(-1, int(owner.Uid), -1)); err != nil {
		return fmt.Errorf("become the owner of %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, syscall.Setresuid(-1, 0, -1), syscall.Setresgid(-1, 0, -1)) }()
	return work()
}
