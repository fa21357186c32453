-- Hand-overs of large hosts are kept in parts, so that nobody needs one whole in memory.
-- Stop all: older programs keep hand-overs in the column that is dropped.

-- +goose Up
CREATE TABLE handover_parts (
    id   TEXT NOT NULL,    -- name of the hand-over: handovers.sha256
    n    INTEGER NOT NULL, -- from 0; a part has 1 MiB, the last one what is left
    made INTEGER NOT NULL, -- when it arrived
    body BLOB NOT NULL,
    PRIMARY KEY (id, n)
) STRICT;
CREATE INDEX handover_parts_by_made ON handover_parts (made);
CREATE INDEX handovers_by_sha256 ON handovers (sha256);
-- What is under way while the program is exchanged begins anew.
DELETE FROM handovers;
ALTER TABLE handovers DROP COLUMN body;

-- +goose Down
DELETE FROM handovers;
ALTER TABLE handovers ADD COLUMN body BLOB;
DROP INDEX handovers_by_sha256;
DROP TABLE handover_parts;
