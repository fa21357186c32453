-- 1: the batch holds a change that somebody waits for, and may be published outside the window.

-- +goose Up
ALTER TABLE ingest_batches ADD COLUMN express INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE ingest_batches DROP COLUMN express;
