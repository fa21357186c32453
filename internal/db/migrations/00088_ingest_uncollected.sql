-- Without statistics SQLite read all published batches by the index of states, rather than the few
-- of this index. Now both columns are in it.

-- +goose Up
DROP INDEX ingest_batches_uncollected;
CREATE INDEX ingest_batches_uncollected ON ingest_batches (state, collected, entered_at) WHERE state = 'published' AND collected = 0;

-- +goose Down
DROP INDEX ingest_batches_uncollected;
CREATE INDEX ingest_batches_uncollected ON ingest_batches (entered_at) WHERE state = 'published' AND collected = 0;
