-- Indices that SQLite chooses without statistics. Until now it went by hosts_by_state, and so read
-- every accepted host, where a query asks for a few of them.

-- +goose Up
DROP INDEX hosts_review;
CREATE INDEX hosts_review ON hosts (state, waiting, name) WHERE review = 1;
DROP INDEX hosts_by_resolved;
CREATE INDEX hosts_by_resolved ON hosts (state, resolved);
CREATE INDEX probes_waiting ON probes (robot, asked) WHERE done = 0;

-- +goose Down
DROP INDEX probes_waiting;
DROP INDEX hosts_by_resolved;
CREATE INDEX hosts_by_resolved ON hosts (resolved) WHERE state = 'accepted';
DROP INDEX hosts_review;
CREATE INDEX hosts_review ON hosts (name) WHERE review = 1;
