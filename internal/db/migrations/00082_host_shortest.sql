-- How short the interval at hosts may get while they answer quickly, where owners allow it.

-- +goose Up
ALTER TABLE hosts ADD COLUMN shortest_ms INTEGER NOT NULL DEFAULT 0; -- 0: as each robot's settings say
DROP INDEX hosts_set;
CREATE INDEX hosts_set ON hosts (name) WHERE interval_ms > 0 OR shortest_ms > 0 OR run_pages > 0;

-- +goose Down
DROP INDEX hosts_set;
CREATE INDEX hosts_set ON hosts (name) WHERE interval_ms > 0 OR run_pages > 0;
ALTER TABLE hosts DROP COLUMN shortest_ms;
