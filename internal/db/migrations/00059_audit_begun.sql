-- Rows of the audit log are written before their acts, and completed after them.

-- +goose Up
ALTER TABLE audit ADD COLUMN begun INTEGER NOT NULL DEFAULT 0; -- 1: how the act ended is not known, and outcome says nothing yet

-- +goose Down
ALTER TABLE audit DROP COLUMN begun;
