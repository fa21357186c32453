-- Intervals that operators set for hosts whose owners allow a shorter one or ask for a longer one.

-- +goose Up
ALTER TABLE hosts ADD COLUMN interval_ms     INTEGER NOT NULL DEFAULT 0;  -- between two visits to the host's address; 0: each robot's own
ALTER TABLE hosts ADD COLUMN interval_reason TEXT    NOT NULL DEFAULT ''; -- who allows or asks for it
CREATE INDEX hosts_interval ON hosts (name) WHERE interval_ms > 0;

-- +goose Down
DROP INDEX hosts_interval;
ALTER TABLE hosts DROP COLUMN interval_reason;
ALTER TABLE hosts DROP COLUMN interval_ms;
