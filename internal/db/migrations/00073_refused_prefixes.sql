-- Parts of hosts that robots leave out, because their owners want that.

-- +goose Up
CREATE TABLE refused_prefixes (
    host    TEXT   NOT NULL, -- whether it is collected or not
    path    TEXT   NOT NULL, -- path and query with which the URLs begin
    created BIGINT NOT NULL,
    by_whom TEXT   NOT NULL,
    reason  TEXT   NOT NULL,
    PRIMARY KEY (host, path)
);

-- +goose Down
DROP TABLE refused_prefixes;
