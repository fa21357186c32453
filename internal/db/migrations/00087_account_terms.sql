-- The terms that an account's owner has accepted: see serve/account.

-- +goose Up
ALTER TABLE accounts ADD COLUMN terms TEXT NOT NULL DEFAULT ''; -- JSON; empty: none

-- +goose Down
ALTER TABLE accounts DROP COLUMN terms;
