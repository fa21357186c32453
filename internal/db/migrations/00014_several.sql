-- Hosts that go to several robots on purpose: whole, to compare the copies, or in shares by the hash of the URL.

-- +goose Up
ALTER TABLE hosts ADD COLUMN copies   INTEGER NOT NULL DEFAULT 1; -- how many robots are to collect the whole host
ALTER TABLE hosts ADD COLUMN parts    INTEGER NOT NULL DEFAULT 1; -- how many robots are to share its URLs
ALTER TABLE hosts ADD COLUMN parts_by TEXT    NOT NULL DEFAULT ''; -- who wanted that: 'plan', 'operator'
ALTER TABLE hosts ADD COLUMN review   INTEGER NOT NULL DEFAULT 0; -- 1: its further robots may not be as they should
CREATE INDEX hosts_review ON hosts (name) WHERE review = 1;
CREATE INDEX hosts_several ON hosts (name) WHERE copies > 1 OR parts > 1;

-- 0: the robot that has the host with all of its address; else a further one.
ALTER TABLE assignments ADD COLUMN slot INTEGER NOT NULL DEFAULT 0;

-- 1: the robot's program works by shares, as its last request of the list said.
ALTER TABLE robots ADD COLUMN shares INTEGER NOT NULL DEFAULT 0;

-- How many links lead from a start URL of the host to this one; robots follow them to a bounded depth.
ALTER TABLE seeds ADD COLUMN depth INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE seeds DROP COLUMN depth;
ALTER TABLE robots DROP COLUMN shares;
ALTER TABLE assignments DROP COLUMN slot;
DROP INDEX hosts_several;
DROP INDEX hosts_review;
ALTER TABLE hosts DROP COLUMN review;
ALTER TABLE hosts DROP COLUMN parts_by;
ALTER TABLE hosts DROP COLUMN parts;
ALTER TABLE hosts DROP COLUMN copies;
