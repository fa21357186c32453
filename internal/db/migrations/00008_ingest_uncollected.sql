-- Collection asks often for the few published batches whose files are still there.

-- +goose Up
CREATE INDEX ingest_batches_uncollected ON ingest_batches (entered_at) WHERE state = 'published' AND collected = 0;

-- +goose Down
DROP INDEX ingest_batches_uncollected;
