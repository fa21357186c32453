package ingest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sheaf/internal/durable"
	"sheaf/internal/wire"
)

// buffers is the directory in which batches lie, one file system throughout, so
// that every move is a rename:
//
//	batches/<id>/batch.tar.gz     from acceptance until collection
//	batches/<id>/manifest         as the robot signed it
//	quarantine/<id>/…             the same two and reason.json
//	converting/…                  what becomes a batch of a foreign file
//	processes/<name>              locked by each process that is at work
//	accepting, deciding           locked by the process that does so
//
// Which state a batch is in is the ledger's to say.
type buffers struct{ dir string }

func (b buffers) batch(id string) string      { return filepath.Join(b.dir, "batches", id) }
func (b buffers) quarantine(id string) string { return filepath.Join(b.dir, "quarantine", id) }

// file and manifest are the paths of a batch that is on its way.
func (b buffers) file(id string) string     { return filepath.Join(b.batch(id), "batch.tar.gz") }
func (b buffers) manifest(id string) string { return filepath.Join(b.batch(id), "manifest") }

func (b buffers) prepare() error {
	if err := durable.MkdirAll(b.dir, 0o750); err != nil {
		return err
	}
	for _, dir := range []string{"batches", "quarantine", "processes", "converting"} {
		if err := durable.Mkdir(filepath.Join(b.dir, dir)); err != nil {
			return err
		}
	}
	return nil
}

// place brings the manifest, where there is one, and the batch file at path under their final names.
// The file comes last: where it is, the manifest is.
func (b buffers) place(id, path string, signed []byte) error {
	if err := durable.Mkdir(b.batch(id)); err != nil {
		return err
	}
	if signed != nil {
		if err := durable.WriteFile(b.manifest(id), signed); err != nil {
			return err
		}
	}
	if path == b.file(id) {
		return nil // placed by an earlier try that got no further
	}
	return durable.Rename(path, b.file(id))
}

// placed lists the directories in batches, whatever state they are in.
func (b buffers) placed() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(b.dir, "batches"))
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	return ids, nil
}

// why is the reason.json of a quarantined batch.
type why struct {
	Batch  wire.BatchID `json:"batch"`
	Reason wire.Reason  `json:"reason"`
	Detail string       `json:"detail"`
}

// moveAside puts a batch with its reason into the quarantine. It may be repeated.
func (b buffers) moveAside(id string, w why) error {
	if _, err := os.Stat(b.batch(id)); errors.Is(err, fs.ErrNotExist) {
		return nil // moved already
	}
	data, err := json.MarshalIndent(w, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(b.batch(id), "reason.json"), append(data, '\n')); err != nil {
		return err
	}
	if err := durable.Rename(b.batch(id), b.quarantine(id)); err != nil {
		return fmt.Errorf("move batch %s to the quarantine: %w", id, err)
	}
	return nil
}

// drop removes a batch that nobody needs any more.
func (b buffers) drop(id string) error { return durable.Remove(b.batch(id)) }

// sweep removes what an interrupted WriteFile has left in a batch's directory, which
// another process may be about to collect.
func (b buffers) sweep(id string) error {
	entries, err := os.ReadDir(b.batch(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), durable.TempSuffix) {
			if err := durable.Remove(filepath.Join(b.batch(id), e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// size is the length of the file at path, -1 where there is none.
func size(path string) (int64, error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return -1, nil
	case err != nil:
		return 0, err
	}
	return st.Size(), nil
}
