-- What several processes of one service agree on.

-- +goose Up
-- One row: the public half of the key that signs receipts. Robots learnt it when they
-- joined, so a process with another key would sign in vain.
CREATE TABLE service_key (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    public BLOB NOT NULL
) STRICT;

ALTER TABLE plans ADD COLUMN token      INTEGER NOT NULL DEFAULT 0; -- the highest that a planner has shown: lower ones are refused
ALTER TABLE plans ADD COLUMN generation INTEGER NOT NULL DEFAULT 0; -- of the assignment that the plan was made from

-- +goose Down
ALTER TABLE plans DROP COLUMN generation;
ALTER TABLE plans DROP COLUMN token;
DROP TABLE service_key;
