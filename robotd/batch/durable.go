package batch

import (
	"encoding/json"
	"fmt"
	"os"

	"sheaf/internal/wire"
)

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
