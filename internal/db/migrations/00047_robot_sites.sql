-- Whom to tell of a robot, the link to its page, and what keeps it from its work. Times are
-- milliseconds since 1970.

-- +goose Up
CREATE TABLE robot_sites (
    robot   TEXT PRIMARY KEY,
    contact TEXT NOT NULL DEFAULT '', -- URL or mail address of the people at its site, as the robot says
    link    TEXT NOT NULL             -- random; the link to its page is signed with it
) STRICT;

CREATE TABLE robot_troubles (
    robot  TEXT NOT NULL,
    kind   TEXT NOT NULL,              -- silent, batch, disk or upload
    detail TEXT NOT NULL,
    since  INTEGER NOT NULL,
    told   INTEGER NOT NULL DEFAULT 0, -- when its site was told
    ended  INTEGER NOT NULL DEFAULT 0, -- 0: it lasts
    PRIMARY KEY (robot, kind)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE robot_troubles;
DROP TABLE robot_sites;
