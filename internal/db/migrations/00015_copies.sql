-- What several robots brought of hosts that are given to each of them whole (hosts.copies), to be compared.

-- +goose Up
-- Ingest writes them as it takes a batch, for such hosts only; the manager judges by them, and forgets the old ones.
CREATE TABLE copies (
    host   TEXT NOT NULL,
    url    TEXT NOT NULL,
    robot  TEXT NOT NULL,
    at     INTEGER NOT NULL, -- of the visit
    digest TEXT NOT NULL,    -- of the payload
    added  INTEGER NOT NULL,
    PRIMARY KEY (host, url, robot, at)
) STRICT, WITHOUT ROWID;
CREATE INDEX copies_added ON copies (host, added);

-- What came of comparing each robot's pages with its peers'.
CREATE TABLE copy_verdicts (
    host      TEXT NOT NULL,
    robot     TEXT NOT NULL,
    judged    INTEGER NOT NULL,
    compared  INTEGER NOT NULL,           -- pages
    differing INTEGER NOT NULL,           -- of those, in a way that time does not explain
    odd       INTEGER NOT NULL,           -- 1: too many
    example   TEXT NOT NULL DEFAULT '',   -- a URL that differs
    PRIMARY KEY (host, robot)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE copy_verdicts;
DROP INDEX copies_added;
DROP TABLE copies;
