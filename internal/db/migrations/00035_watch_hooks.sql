-- Webhooks that fail, so that each is asked ever more rarely, however many notices wait for it.

-- +goose Up
CREATE TABLE watch_hooks (
    account  TEXT   NOT NULL,
    webhook  TEXT   NOT NULL,
    failures BIGINT NOT NULL, -- in a row
    resume   BIGINT NOT NULL, -- when it may be called again, in milliseconds since 1970
    PRIMARY KEY (account, webhook)
);

-- +goose Down
DROP TABLE watch_hooks;
