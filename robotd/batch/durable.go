package batch

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"sheaf/internal/files"
	"sheaf/internal/wire"
	"sheaf/robotd/config"
)

// unfinished is the suffix of a file that is being written.
const unfinished = ".new"

// writeFile creates a file with the content that fill writes. When it returns nil the file is
// complete and durable. If it fails there is no file.
func writeFile(path string, fill func(io.Writer) error) (err error) {
	f, err := os.Create(path + unfinished)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	w := bufio.NewWriterSize(f, 256<<10)
	if err := fill(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return files.SyncDir(filepath.Dir(path))
}

// chain is the end of the chain of manifests. Each manifest has the digest of the one before.
type chain struct {
	Number int64        `json:"number"`
	Batch  wire.BatchID `json:"batch"`
	Digest string       `json:"digest"`
}

func (c *chain) load(path string) error {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, c); err != nil {
		return fmt.Errorf("%s: %w; restore it from the newest manifest in the spool", path, err)
	}
	return nil
}

func (c *chain) store(path string) error { return config.SaveJSON(path, c) }
