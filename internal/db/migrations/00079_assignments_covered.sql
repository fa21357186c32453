-- The robots' hosts are counted and listed from the index alone. Without its condition's column SQLite
-- reads the row of each assignment, too, although the condition says what it has.

-- +goose Up
DROP INDEX assignments_now;
CREATE INDEX assignments_now ON assignments (robot, host, to_generation) WHERE to_generation IS NULL;

-- +goose Down
DROP INDEX assignments_now;
CREATE INDEX assignments_now ON assignments (robot, host) WHERE to_generation IS NULL;
