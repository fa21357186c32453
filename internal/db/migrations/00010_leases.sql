-- Leases (internal/lease): who may do what only one may do at a time.
-- Stop all: older programs count their publications in the table that is dropped.

-- +goose Up
-- The highest token of each name so far.
CREATE TABLE leases (
    name  TEXT PRIMARY KEY,
    token INTEGER NOT NULL
) STRICT;
INSERT INTO leases (name, token) SELECT 'publish', token FROM ingest_publisher;
DROP TABLE ingest_publisher;

-- Who has or wants a name, the first by token being the holder. A beat that stands
-- still is that of one who is gone.
CREATE TABLE lease_queue (
    name   TEXT NOT NULL,
    token  INTEGER NOT NULL,
    holder TEXT NOT NULL,
    beat   INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (name, token)
) STRICT, WITHOUT ROWID;

-- +goose Down
CREATE TABLE ingest_publisher (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    token INTEGER NOT NULL
) STRICT;
INSERT INTO ingest_publisher (one, token) SELECT 1, coalesce(max(token), 0) FROM leases WHERE name = 'publish';
DROP TABLE lease_queue;
DROP TABLE leases;
