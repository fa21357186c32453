-- What robots say of their work, what hosts cost, and what the manager makes of it.

-- +goose Up
ALTER TABLE robots ADD COLUMN lapsed  INTEGER NOT NULL DEFAULT 0;  -- when it had been silent for too long and its hosts were handed on; 0: it is heard of
ALTER TABLE robots ADD COLUMN paused  INTEGER NOT NULL DEFAULT 0;  -- 1: by the operator
ALTER TABLE robots ADD COLUMN upgrade TEXT    NOT NULL DEFAULT ''; -- the version that the operator wants it to run; '': any
ALTER TABLE robots ADD COLUMN slow    REAL    NOT NULL DEFAULT 1;  -- its line: ms for what takes 1 ms at the middle robot

ALTER TABLE hosts ADD COLUMN weight REAL;                          -- ms that its pages take at the middle robot; NULL: not measured
ALTER TABLE hosts ADD COLUMN domain TEXT NOT NULL DEFAULT '';      -- registered domain, of hosts that robots found: its hosts are capped
CREATE INDEX hosts_by_domain ON hosts (domain) WHERE domain <> '';

-- The last heartbeat of each robot.
CREATE TABLE heartbeats (
    robot      TEXT PRIMARY KEY,
    at         INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    phase      TEXT NOT NULL,
    cycle      INTEGER NOT NULL,
    left_urls  INTEGER NOT NULL, -- known and not collected
    pages      INTEGER NOT NULL,
    bytes      INTEGER NOT NULL,
    ms         INTEGER NOT NULL,
    spool      INTEGER NOT NULL,
    rate       REAL NOT NULL     -- pages a second while it collects, smoothed; 0: not known
) STRICT;

-- The hosts that a robot has begun in its cycle.
CREATE TABLE progress (
    robot TEXT NOT NULL,
    host  TEXT NOT NULL,
    cycle INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('begun', 'done')),
    pages INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    ms    INTEGER NOT NULL,
    PRIMARY KEY (robot, host)
) STRICT, WITHOUT ROWID;

ALTER TABLE costs ADD COLUMN samples BLOB; -- the latest hours in which the host was visited; see manager/samples.go

CREATE INDEX costs_by_host ON costs (host);

-- A robot's rates by the hour of the week, 0 is Monday 00:00 in the service's zone.
CREATE TABLE rates (
    robot    TEXT NOT NULL,
    hour     INTEGER NOT NULL CHECK (hour BETWEEN 0 AND 167),
    requests INTEGER NOT NULL,
    bytes    INTEGER NOT NULL,
    ms       INTEGER NOT NULL,
    PRIMARY KEY (robot, hour)
) STRICT, WITHOUT ROWID;

-- Distances that robots have been asked to measure.
CREATE TABLE probes (
    robot TEXT NOT NULL,
    host  TEXT NOT NULL,
    asked INTEGER NOT NULL,
    done  INTEGER NOT NULL DEFAULT 0, -- 0: waits for the robot
    bytes INTEGER NOT NULL DEFAULT 0,
    ms    INTEGER NOT NULL DEFAULT 0,
    fault TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (robot, host)
) STRICT, WITHOUT ROWID;

-- One row: the plan that the assignment was last made from.
CREATE TABLE plans (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    made     INTEGER NOT NULL, -- 0: never
    typical  REAL NOT NULL,    -- weight of a host that nobody has measured
    makespan REAL NOT NULL,    -- ms
    bound    REAL NOT NULL,    -- ms; no plan ends before it
    moved    INTEGER NOT NULL,
    explain  TEXT NOT NULL
) STRICT;
INSERT INTO plans (id, made, typical, makespan, bound, moved, explain) VALUES (1, 0, 1, 0, 0, 0, '');

-- +goose Down
DROP TABLE plans;
DROP TABLE probes;
DROP TABLE rates;
DROP INDEX costs_by_host;
ALTER TABLE costs DROP COLUMN samples;
DROP TABLE progress;
DROP TABLE heartbeats;
DROP INDEX hosts_by_domain;
ALTER TABLE hosts DROP COLUMN domain;
ALTER TABLE hosts DROP COLUMN weight;
ALTER TABLE robots DROP COLUMN slow;
ALTER TABLE robots DROP COLUMN upgrade;
ALTER TABLE robots DROP COLUMN paused;
ALTER TABLE robots DROP COLUMN lapsed;
