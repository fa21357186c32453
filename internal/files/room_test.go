package files

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

func TestIsFull(t *testing.T) {
	full := fmt.Errorf("segment: %w", &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC})
	if !IsFull(full) || IsFull(errors.New("no space left on device")) || IsFull(nil) {
		t.Error("IsFull is wrong about an error")
	}
}
