-- The manager's tables: robots, hosts, who collects which host, and what it costs.

-- +goose Up
CREATE TABLE robots (
    name               TEXT PRIMARY KEY,
    created            INTEGER NOT NULL,
    token_hash         BLOB UNIQUE,                -- SHA-256 of the one-time token; NULL once it is used
    token_expires      INTEGER NOT NULL DEFAULT 0,
    secret_hash        BLOB,                       -- SHA-256 of the 256-bit random secret; NULL: has not joined, or revoked
    public_key         BLOB,                       -- Ed25519
    version            TEXT NOT NULL DEFAULT '',
    joined             INTEGER NOT NULL DEFAULT 0,
    seen               INTEGER NOT NULL DEFAULT 0, -- last authenticated request, to the minute
    revoked            INTEGER NOT NULL DEFAULT 0,
    subscribed         INTEGER NOT NULL DEFAULT 0, -- P5: 1 while it takes part
    list_generation    INTEGER NOT NULL DEFAULT 0, -- the last generation that changed this robot's list
    restart_generation INTEGER NOT NULL DEFAULT 0, -- P4: a list older than this is to be dropped
    restart_answered   INTEGER NOT NULL DEFAULT 0  -- the restart_generation that was last answered with RESTART
) STRICT;

CREATE TABLE hosts (
    name      TEXT PRIMARY KEY,           -- authority without default port, lower case
    state     TEXT NOT NULL CHECK (state IN ('accepted', 'pending', 'refused')),
    source    TEXT NOT NULL,              -- the robot that found it; '' is the operator
    created   INTEGER NOT NULL,
    addresses TEXT NOT NULL DEFAULT '',   -- sorted, separated by spaces
    resolved  INTEGER NOT NULL DEFAULT 0, -- when addresses were last asked for
    grp       TEXT NOT NULL,              -- hosts of one group go to one robot: an address, or the host's own name
    waiting   INTEGER NOT NULL DEFAULT 0  -- 1: accepted, and no robot has it
) STRICT;
CREATE INDEX hosts_by_group ON hosts (grp);
CREATE INDEX hosts_by_state ON hosts (state, name);
CREATE INDEX hosts_by_resolved ON hosts (resolved) WHERE state = 'accepted';
CREATE INDEX hosts_waiting ON hosts (grp, name) WHERE waiting = 1;

CREATE TABLE seeds (
    host    TEXT NOT NULL REFERENCES hosts (name) ON DELETE CASCADE,
    url     TEXT NOT NULL,
    referer TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (host, url)
) STRICT, WITHOUT ROWID;

-- Which robot had which host from one generation until before another. Rows are
-- never deleted: a late batch is judged by the generation it was collected under.
CREATE TABLE assignments (
    host            TEXT NOT NULL,
    robot           TEXT NOT NULL,
    from_generation INTEGER NOT NULL,
    to_generation   INTEGER, -- NULL: has it now
    PRIMARY KEY (host, robot, from_generation)
) STRICT, WITHOUT ROWID;
CREATE INDEX assignments_now ON assignments (robot, host) WHERE to_generation IS NULL;

-- One row: the number of the latest generation.
CREATE TABLE generation (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    number INTEGER NOT NULL
) STRICT;
INSERT INTO generation (id, number) VALUES (1, 0);

CREATE TABLE logs (
    robot    TEXT NOT NULL,
    name     TEXT NOT NULL,
    sha256   BLOB NOT NULL,    -- of the file as it was sent
    bytes    INTEGER NOT NULL,
    lines    INTEGER NOT NULL,
    received INTEGER NOT NULL,
    PRIMARY KEY (robot, name)
) STRICT;

CREATE TABLE costs (
    robot    TEXT NOT NULL,
    host     TEXT NOT NULL,
    requests INTEGER NOT NULL,
    bytes    INTEGER NOT NULL, -- of the answers
    ms       INTEGER NOT NULL,
    updated  INTEGER NOT NULL,
    PRIMARY KEY (robot, host)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE costs;
DROP TABLE logs;
DROP TABLE generation;
DROP TABLE assignments;
DROP TABLE seeds;
DROP TABLE hosts;
DROP TABLE robots;
