-- How far the plan of the day is while it is made, and why the last attempt was given up.

-- +goose Up
ALTER TABLE plans ADD COLUMN step      TEXT    NOT NULL DEFAULT ''; -- what the planner does now; '': no plan is being made
ALTER TABLE plans ADD COLUMN began     INTEGER NOT NULL DEFAULT 0;  -- when the plan was begun
ALTER TABLE plans ADD COLUMN beat      INTEGER NOT NULL DEFAULT 0;  -- when the planner has last said that it is at work
ALTER TABLE plans ADD COLUMN cancelled INTEGER NOT NULL DEFAULT 0;  -- token of the planner that is to stop
ALTER TABLE plans ADD COLUMN given_up  INTEGER NOT NULL DEFAULT 0;  -- when the last attempt was given up; 0: it was not
ALTER TABLE plans ADD COLUMN reason    TEXT    NOT NULL DEFAULT ''; -- why

-- +goose Down
ALTER TABLE plans DROP COLUMN reason;
ALTER TABLE plans DROP COLUMN given_up;
ALTER TABLE plans DROP COLUMN cancelled;
ALTER TABLE plans DROP COLUMN beat;
ALTER TABLE plans DROP COLUMN began;
ALTER TABLE plans DROP COLUMN step;
