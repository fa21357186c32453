-- Log-in with a browser. An account has a mail address, by which its password can be reset, and can
-- be suspended. Sessions and resets are kept by the SHA-256 of their tokens, so that who reads the
-- database cannot use them.

-- +goose Up
ALTER TABLE accounts ADD COLUMN email TEXT NOT NULL DEFAULT '';        -- '': none
ALTER TABLE accounts ADD COLUMN suspended INTEGER NOT NULL DEFAULT 0;  -- 1: nobody logs in

CREATE TABLE sessions (
    token   TEXT PRIMARY KEY,  -- hash, as scs writes it
    data    BLOB NOT NULL,     -- as scs writes it
    begun   INTEGER NOT NULL,
    expires INTEGER NOT NULL   -- moves while the session is used
) STRICT;
CREATE INDEX sessions_by_expiry ON sessions (expires);

CREATE TABLE password_resets (
    hash    BLOB PRIMARY KEY,
    account TEXT NOT NULL,
    mark    TEXT NOT NULL,     -- of the password that is to be reset; another one ends the reset
    expires INTEGER NOT NULL
) STRICT;

-- +goose Down
DROP TABLE password_resets;
DROP TABLE sessions;
ALTER TABLE accounts DROP COLUMN suspended;
ALTER TABLE accounts DROP COLUMN email;
