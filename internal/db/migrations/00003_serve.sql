-- +goose Up

-- Who may fetch archives. password is a PHC string (argon2id); domains are
-- separated by spaces, "*" is every host; opening is a schedule in the grammar
-- of internal/window; created is Unix seconds.
CREATE TABLE accounts (
    name     TEXT   NOT NULL PRIMARY KEY,
    password TEXT   NOT NULL,
    domains  TEXT   NOT NULL,
    opening  TEXT   NOT NULL,
    created  BIGINT NOT NULL
);

-- +goose Down

DROP TABLE accounts;
