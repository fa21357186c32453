-- Operators with names, roles and passwords. The token of the data directory is not among them.

-- +goose Up
CREATE TABLE operators (
    name      TEXT PRIMARY KEY,
    password  TEXT NOT NULL,              -- argon2id PHC string
    role      TEXT NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    suspended INTEGER NOT NULL DEFAULT 0, -- 1: cannot log in
    created   INTEGER NOT NULL,
    seen      INTEGER NOT NULL DEFAULT 0  -- last log-in, to the minute; 0: never
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE operators;
