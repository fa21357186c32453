-- Watches that end with one visit: pages that consumers have saved now.

-- +goose Up
ALTER TABLE watches ADD COLUMN once  INTEGER NOT NULL DEFAULT 0; -- 1: the watch ends with the first visit after it was made
ALTER TABLE watches ADD COLUMN saved INTEGER NOT NULL DEFAULT 0; -- time of that visit, once it is published; 0: not yet

-- +goose Down
ALTER TABLE watches DROP COLUMN saved;
ALTER TABLE watches DROP COLUMN once;
