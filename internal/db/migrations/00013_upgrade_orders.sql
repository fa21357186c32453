-- The order to upgrade means: look for your release now. Which release that is, the roll-out says.
-- Stop all: older programs read the column that is dropped.

-- +goose Up
ALTER TABLE robots ADD COLUMN look INTEGER NOT NULL DEFAULT 0; -- when it was told to look for a release; 0: it has looked since
ALTER TABLE robots DROP COLUMN upgrade;

-- +goose Down
ALTER TABLE robots ADD COLUMN upgrade TEXT NOT NULL DEFAULT '';
ALTER TABLE robots DROP COLUMN look;
