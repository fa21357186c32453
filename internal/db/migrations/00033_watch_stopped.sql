-- Why a watch tells nothing more by mail or by its webhook: the other side has refused for good.

-- +goose Up
ALTER TABLE watches ADD COLUMN mail_stopped TEXT NOT NULL DEFAULT '';
ALTER TABLE watches ADD COLUMN hook_stopped TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE watches DROP COLUMN hook_stopped;
ALTER TABLE watches DROP COLUMN mail_stopped;
