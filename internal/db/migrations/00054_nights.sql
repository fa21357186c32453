-- When robots end, by the plan and in fact, and what was learned of them.

-- +goose Up
ALTER TABLE heartbeats ADD COLUMN worked    INTEGER NOT NULL DEFAULT 0; -- ms of its cycle in which the robot collected
ALTER TABLE heartbeats ADD COLUMN transfers REAL    NOT NULL DEFAULT 0; -- highest mean so far of transfers at once
ALTER TABLE heartbeats ADD COLUMN flow      REAL    NOT NULL DEFAULT 0; -- highest mean so far of bytes a second
ALTER TABLE heartbeats ADD COLUMN week      TEXT    NOT NULL DEFAULT ''; -- 168 characters, from Monday 00:00 on: o the window was open, s it was shut, ? not known; '': nothing is known

ALTER TABLE progress ADD COLUMN began INTEGER NOT NULL DEFAULT 0; -- in the robot's ms of collecting
ALTER TABLE progress ADD COLUMN ended INTEGER NOT NULL DEFAULT 0; -- likewise; 0: it has not

ALTER TABLE hosts ADD COLUMN gap REAL; -- ms between the end of a request and the next at the host's address, where it is longer than usual; NULL: it is not

-- What binds a robot, as its nights have shown, and when it is to end by the last plan.
CREATE TABLE paces (
    robot     TEXT PRIMARY KEY,
    gap       REAL NOT NULL,            -- ms between two requests at an address
    width     REAL NOT NULL,            -- transfers at once: the robot's limit if width_binds is 1, else the most that was seen
    line      REAL NOT NULL,            -- bytes a second, likewise
    width_binds INTEGER NOT NULL,       -- 1: a night was bound by it
    line_binds  INTEGER NOT NULL,
    predicted REAL NOT NULL DEFAULT 0,  -- ms of collecting; 0: not planned
    model     REAL NOT NULL DEFAULT 0,  -- likewise, without what former predictions were wrong by
    binds     TEXT NOT NULL DEFAULT '', -- what keeps it from ending sooner
    host      TEXT NOT NULL DEFAULT ''  -- of its longest chain
) STRICT;

-- The last cycles of each robot.
CREATE TABLE nights (
    robot     TEXT NOT NULL,
    cycle     INTEGER NOT NULL,
    began     INTEGER NOT NULL, -- Unix ms
    ended     INTEGER NOT NULL, -- Unix ms; 0: it has not
    worked    INTEGER NOT NULL, -- ms of collecting
    predicted REAL NOT NULL,    -- ms of collecting; 0: it was not predicted
    model     REAL NOT NULL,    -- likewise, without what former predictions were wrong by
    binds     TEXT NOT NULL,    -- by the prediction
    PRIMARY KEY (robot, cycle)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE nights;
DROP TABLE paces;
ALTER TABLE hosts DROP COLUMN gap;
ALTER TABLE progress DROP COLUMN ended;
ALTER TABLE progress DROP COLUMN began;
ALTER TABLE heartbeats DROP COLUMN week;
ALTER TABLE heartbeats DROP COLUMN flow;
ALTER TABLE heartbeats DROP COLUMN transfers;
ALTER TABLE heartbeats DROP COLUMN worked;
