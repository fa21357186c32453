-- API tokens of accounts, good where the password is. Only their SHA-256 is stored.

-- +goose Up
CREATE TABLE account_tokens (
    id      TEXT PRIMARY KEY,
    account TEXT NOT NULL REFERENCES accounts (name) ON DELETE CASCADE,
    name    TEXT NOT NULL,              -- what its owner calls it
    hash    BLOB NOT NULL UNIQUE,
    uses    TEXT NOT NULL,              -- what it is good for, separated by spaces
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL DEFAULT 0, -- 0: never
    used    INTEGER NOT NULL DEFAULT 0  -- last, to the minute; 0: never
) STRICT;
CREATE INDEX account_tokens_by_account ON account_tokens (account);

-- +goose Down
DROP TABLE account_tokens;
