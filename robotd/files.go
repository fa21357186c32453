package robotd

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"sheaf/internal/durable"
)

// replaceFile writes a file whole, durably and under its name, or not at all: an
// identity is got with a token that works once.
func replaceFile(path string, data []byte, mode os.FileMode) error {
	return durable.Disk{System: durable.Host{}}.WriteFile(path, data, mode)
}

// saveJSON replaces a file by v as JSON.
func saveJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(path, append(data, '\n'), 0o644)
}

// noteJSON is saveJSON for what is soon said anew: it outlasts the process, not a loss of power.
func noteJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// loadJSON reads v from a file; it is left as it is where there is none.
func loadJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w; remove the file", path, err)
	}
	return nil
}

// lockDir makes sure that one daemon works in the folder. The kernel drops the
// lock with the process, however it ends.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "robot.lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("another robotd works in %s: %w", dir, err)
	}
	return f, nil
}
