-- Whether a transfer's bytes and time are what its client has acknowledged (1), or what the service wrote or read (0).

-- +goose Up
ALTER TABLE transfers ADD COLUMN acknowledged INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE transfers DROP COLUMN acknowledged;
