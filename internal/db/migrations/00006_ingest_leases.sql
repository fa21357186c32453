-- Who is splitting a batch, and until when it is this one's alone.

-- +goose Up
ALTER TABLE ingest_batches ADD COLUMN holder TEXT NOT NULL DEFAULT '';          -- name of a process's lock file in the buffers
ALTER TABLE ingest_batches ADD COLUMN lease_until INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE ingest_batches DROP COLUMN lease_until;
ALTER TABLE ingest_batches DROP COLUMN holder;
