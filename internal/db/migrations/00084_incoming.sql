-- Batches whose files lie in the object store until they are published.

-- +goose Up
ALTER TABLE ingest_batches ADD COLUMN incoming TEXT NOT NULL DEFAULT ''; -- name of its objects; '': in the buffers
CREATE TABLE ingest_incoming ( -- names of objects that no batch has: not yet, or not any more
	name TEXT PRIMARY KEY,
	since BIGINT NOT NULL, -- ms
	doomed INTEGER NOT NULL DEFAULT 0 -- 1: no batch will ever have it; the objects are deleted
);

-- +goose Down
DROP TABLE ingest_incoming;
ALTER TABLE ingest_batches DROP COLUMN incoming;
