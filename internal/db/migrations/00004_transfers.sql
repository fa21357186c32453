-- Every upload from a robot and every download by an account.

-- +goose Up
CREATE TABLE transfers (
    id        INTEGER PRIMARY KEY,
    at        INTEGER NOT NULL, -- start
    direction TEXT NOT NULL CHECK (direction IN ('upload', 'download')),
    protocol  TEXT NOT NULL,
    who       TEXT NOT NULL,
    name      TEXT NOT NULL,
    bytes     INTEGER NOT NULL,
    took_us   INTEGER NOT NULL, -- microseconds
    outcome   TEXT NOT NULL CHECK (outcome IN ('ok', 'aborted')),
    remote    TEXT NOT NULL
) STRICT;
CREATE INDEX transfers_by_time ON transfers (at);
CREATE INDEX transfers_by_who ON transfers (who, at);

-- +goose Down
DROP TABLE transfers;
