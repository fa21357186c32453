-- Finds the hosts of a group that another robot may still be visiting. After a plan there may be
-- hundreds of thousands.

-- +goose Up
CREATE INDEX holds_by_group ON holds (grp);

-- +goose Down
DROP INDEX holds_by_group;
