-- Pages of a run that operators set for hosts whose owners allow several over one connection.

-- +goose Up
ALTER TABLE hosts ADD COLUMN run_pages INTEGER NOT NULL DEFAULT 0; -- 0: as each robot's settings say
DROP INDEX hosts_interval;
CREATE INDEX hosts_set ON hosts (name) WHERE interval_ms > 0 OR run_pages > 0;

-- +goose Down
DROP INDEX hosts_set;
CREATE INDEX hosts_interval ON hosts (name) WHERE interval_ms > 0;
ALTER TABLE hosts DROP COLUMN run_pages;
