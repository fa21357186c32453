-- What robots say of the hosts that they have begun, so that these can move while the robots work.

-- +goose Up
ALTER TABLE heartbeats ADD COLUMN crowded INTEGER NOT NULL DEFAULT 0; -- addresses that wait although their interval has passed
ALTER TABLE heartbeats ADD COLUMN every   INTEGER NOT NULL DEFAULT 0; -- ms between two heartbeats; 0: not known
ALTER TABLE progress ADD COLUMN left_urls INTEGER NOT NULL DEFAULT 0; -- known and not collected

-- +goose Down
ALTER TABLE progress DROP COLUMN left_urls;
ALTER TABLE heartbeats DROP COLUMN every;
ALTER TABLE heartbeats DROP COLUMN crowded;
