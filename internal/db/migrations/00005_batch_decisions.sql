-- What an operator has decided about a quarantined batch.

-- +goose Up
ALTER TABLE ingest_batches ADD COLUMN decision TEXT NOT NULL DEFAULT '' CHECK (decision IN ('', 'released', 'discarded')); -- the latest
ALTER TABLE ingest_batches ADD COLUMN decided_by TEXT NOT NULL DEFAULT '';
ALTER TABLE ingest_batches ADD COLUMN decided_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ingest_batches ADD COLUMN note TEXT NOT NULL DEFAULT '';   -- the operator's word
ALTER TABLE ingest_batches ADD COLUMN waived TEXT NOT NULL DEFAULT ''; -- reasons that no longer stop it, each followed by a space

-- +goose Down
ALTER TABLE ingest_batches DROP COLUMN waived;
ALTER TABLE ingest_batches DROP COLUMN note;
ALTER TABLE ingest_batches DROP COLUMN decided_at;
ALTER TABLE ingest_batches DROP COLUMN decided_by;
ALTER TABLE ingest_batches DROP COLUMN decision;
