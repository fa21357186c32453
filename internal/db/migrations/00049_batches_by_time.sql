-- The list of batches in all states, newest first, was sorted each time.

-- +goose Up
CREATE INDEX ingest_batches_by_time ON ingest_batches (received_at, id);

-- +goose Down
DROP INDEX ingest_batches_by_time;
