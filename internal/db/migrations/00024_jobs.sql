-- Queries whose records are gathered in the background. What they asked by list, and
-- what was found, lie in the store.

-- +goose Up
CREATE TABLE jobs (
    id       TEXT PRIMARY KEY,
    account  TEXT NOT NULL,
    form     TEXT NOT NULL,              -- of the file, such as ".warc.gz"
    query    TEXT NOT NULL,              -- the parameters, as in a URL
    list     INTEGER NOT NULL,           -- 1: the body of the request is in the store
    state    TEXT NOT NULL CHECK (state IN ('queued', 'running', 'done', 'failed')),
    created  INTEGER NOT NULL,
    worker   TEXT NOT NULL DEFAULT '',   -- the attempt under way, or that was the last
    beat     INTEGER NOT NULL DEFAULT 0, -- when it last said how far it is
    finished INTEGER NOT NULL DEFAULT 0,
    scanned  INTEGER NOT NULL DEFAULT 0, -- records looked at
    records  INTEGER NOT NULL DEFAULT 0, -- records found
    bytes    INTEGER NOT NULL DEFAULT 0, -- of the file so far
    problem  TEXT NOT NULL DEFAULT ''    -- why it failed
) STRICT, WITHOUT ROWID;
CREATE INDEX jobs_by_account ON jobs (account, created);
CREATE INDEX jobs_by_state ON jobs (state, created);

-- +goose Down
DROP TABLE jobs;
