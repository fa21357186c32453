-- What robots hand over of hosts that go to other robots.

-- +goose Up
CREATE TABLE handovers (
    host   TEXT PRIMARY KEY REFERENCES hosts (name) ON DELETE CASCADE,
    robot  TEXT NOT NULL,    -- that has made it
    made   INTEGER NOT NULL, -- when it arrived
    head   TEXT NOT NULL,    -- JSON
    sha256 TEXT NOT NULL,    -- of host and body, hexadecimal: its name
    body   BLOB NOT NULL
) STRICT;
CREATE INDEX handovers_by_made ON handovers (made);

-- +goose Down
DROP TABLE handovers;
