-- +goose Up
-- One row for each batch that was ever accepted, and for each newcomer that was
-- refused and kept. Rows are never deleted: they are what a repeated upload is
-- judged by. Times are Unix milliseconds.
CREATE TABLE ingest_batches (
    id          TEXT PRIMARY KEY,            -- the batch ID; of a refused newcomer "<batch ID>+<12 digits of its manifest's digest>"
    batch       TEXT NOT NULL,
    robot       TEXT NOT NULL,
    protocol    TEXT NOT NULL,               -- 'http', 'ftp', or '' where a restart found the batch
    sha256      TEXT NOT NULL,               -- of the batch file, as the manifest has it
    size        INTEGER NOT NULL,
    hosts       INTEGER NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('received', 'pre-split', 'post-split', 'published', 'quarantined')),
    attempt     INTEGER NOT NULL DEFAULT 0,  -- of the split; part of the names of what it stores
    token       INTEGER NOT NULL DEFAULT 0,  -- fencing: raised by every claim, shown by every move
    failures    INTEGER NOT NULL DEFAULT 0,  -- of this state, in a row, that may pass by themselves
    not_before  INTEGER NOT NULL DEFAULT 0,  -- back-off after a failure
    last_error  TEXT NOT NULL DEFAULT '',
    reason      TEXT NOT NULL DEFAULT '',    -- quarantined: wire.Reason
    detail      TEXT NOT NULL DEFAULT '',
    edition     TEXT NOT NULL DEFAULT '',    -- published
    version     INTEGER NOT NULL DEFAULT 0,
    received_at INTEGER NOT NULL,
    entered_at  INTEGER NOT NULL,            -- when it entered its state
    collected   INTEGER NOT NULL DEFAULT 0   -- 1: the batch file is gone from the buffers
) STRICT;
CREATE INDEX ingest_batches_by_state ON ingest_batches (state, received_at);

-- What the split of a batch has staged: a catalog line (JSON) for each host, of
-- the current attempt only. Dropped once the batch is published.
CREATE TABLE ingest_lines (
    id      TEXT NOT NULL REFERENCES ingest_batches (id),
    host    TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    line    TEXT NOT NULL,
    PRIMARY KEY (id, host)
) STRICT, WITHOUT ROWID;

-- The publisher's fencing token: one row, raised by every publication.
CREATE TABLE ingest_publisher (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    token INTEGER NOT NULL
) STRICT;
INSERT INTO ingest_publisher (one, token) VALUES (1, 0);

-- +goose Down
DROP TABLE ingest_publisher;
DROP TABLE ingest_lines;
DROP TABLE ingest_batches;
