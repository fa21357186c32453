-- An assignment is a lease: until when a robot may visit its hosts, and which hosts that were taken from it
-- it may still be visiting.
-- Stop all: older managers give hosts on without waiting for the robots that still visit them.

-- +goose Up
ALTER TABLE robots ADD COLUMN given  INTEGER NOT NULL DEFAULT 0;  -- the newest generation whose list was sent to it
ALTER TABLE robots ADD COLUMN leased INTEGER NOT NULL DEFAULT 0;  -- until when it may visit its hosts; 0: it was sent no list
ALTER TABLE robots ADD COLUMN dead   TEXT    NOT NULL DEFAULT ''; -- why an operator has said that it visits nothing; '': no operator has
UPDATE robots SET given = list_generation, leased = seen + 86400000 WHERE list_generation > 0 AND seen > 0;

-- Hosts that a robot has lost, or has another share of, and may still visit as before. Meanwhile no other
-- robot may begin at the host, or at another host of its group.
CREATE TABLE holds (
    host       TEXT NOT NULL,
    grp        TEXT NOT NULL,              -- the host's group when the robot lost it
    robot      TEXT NOT NULL,              -- with '!' after its name: its credentials were revoked
    since      INTEGER NOT NULL,           -- generation that had given the host to the robot
    generation INTEGER NOT NULL,           -- that has changed this: a robot with a list of it, or a later one, has stopped
    until      INTEGER NOT NULL DEFAULT 0, -- end of the robot's lease
    PRIMARY KEY (host, robot, grp)
) STRICT, WITHOUT ROWID;
CREATE INDEX holds_by_robot ON holds (robot, generation);
CREATE INDEX holds_by_until ON holds (until);

-- +goose Down
DROP TABLE holds;
ALTER TABLE robots DROP COLUMN dead;
ALTER TABLE robots DROP COLUMN leased;
ALTER TABLE robots DROP COLUMN given;
