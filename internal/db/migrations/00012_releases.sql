-- Releases of the robot's program and how far each is rolled out. The programs lie in files.

-- +goose Up
CREATE TABLE releases (
    counter   INTEGER PRIMARY KEY,
    text      BLOB NOT NULL,             -- as it was signed
    signature BLOB NOT NULL,             -- minisign's
    published INTEGER NOT NULL,
    percent   INTEGER NOT NULL,          -- of the robots that are offered it: 1, 10, 100
    since     INTEGER NOT NULL,          -- when percent became what it is
    soak      INTEGER NOT NULL,          -- milliseconds that a stage lasts at least
    stopped   TEXT NOT NULL DEFAULT ''   -- why it is offered to nobody any more
) STRICT;

-- At most one row: the key that releases are signed with.
CREATE TABLE release_key (
    id  INTEGER PRIMARY KEY CHECK (id = 1),
    key TEXT NOT NULL
) STRICT;

-- What each robot last said of its program.
CREATE TABLE release_reports (
    robot    TEXT PRIMARY KEY,
    counter  INTEGER NOT NULL, -- at work
    seen     INTEGER NOT NULL, -- the highest verified
    platform TEXT NOT NULL,
    reported INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE release_failures (
    robot   TEXT NOT NULL,
    counter INTEGER NOT NULL,
    why     TEXT NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (robot, counter)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE release_failures;
DROP TABLE release_reports;
DROP TABLE release_key;
DROP TABLE releases;
