-- What a page is called, as its visit found it.

-- +goose Up
ALTER TABLE watch_notices ADD COLUMN title TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE watch_notices DROP COLUMN title;
