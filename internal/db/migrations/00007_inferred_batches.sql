-- Batches that came by FTP without a manifest.

-- +goose Up
ALTER TABLE ingest_batches ADD COLUMN inferred INTEGER NOT NULL DEFAULT 0; -- 1: the service wrote the manifest itself

-- +goose Down
ALTER TABLE ingest_batches DROP COLUMN inferred;
