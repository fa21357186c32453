-- By how much robots' nights differ from what the model makes of their own work.
-- Stop all: older programs read the columns that are dropped.

-- +goose Up
ALTER TABLE paces DROP COLUMN model;
ALTER TABLE nights DROP COLUMN model;
ALTER TABLE paces ADD COLUMN drift REAL NOT NULL DEFAULT 0; -- factor; 0: not known

-- +goose Down
ALTER TABLE paces DROP COLUMN drift;
ALTER TABLE nights ADD COLUMN model REAL NOT NULL DEFAULT 0;
ALTER TABLE paces ADD COLUMN model REAL NOT NULL DEFAULT 0;
