-- What consumers watch, what was found, and what has to be told of it. Times are
-- milliseconds since 1970.

-- +goose Up
CREATE TABLE watches (
    id      TEXT   PRIMARY KEY,
    account TEXT   NOT NULL,
    kind    TEXT   NOT NULL,            -- url, prefix or host
    host    TEXT   NOT NULL,
    url     TEXT   NOT NULL,            -- as the archive keeps it: with the form's fields, where there is a form
    address TEXT   NOT NULL,            -- that robots ask; empty: there is no single one
    body    TEXT   NOT NULL DEFAULT '', -- of the POST request; empty: GET
    media   TEXT   NOT NULL DEFAULT '', -- type of body
    email   TEXT   NOT NULL DEFAULT '',
    every   TEXT   NOT NULL DEFAULT '', -- change, hour or day: how often mails come
    confirm TEXT   NOT NULL DEFAULT '', -- token that the address has been sent; empty: it is confirmed
    webhook TEXT   NOT NULL DEFAULT '',
    secret  TEXT   NOT NULL,            -- signs what is sent, and the link that ends it
    created BIGINT NOT NULL
);
CREATE INDEX watches_by_account ON watches (account, created);
CREATE INDEX watches_by_host ON watches (host);

CREATE TABLE watch_notices (
    id      TEXT   PRIMARY KEY,         -- follows from watch, url and time
    watch   TEXT   NOT NULL,
    account TEXT   NOT NULL,
    what    TEXT   NOT NULL,            -- new, changed, gone or back
    url     TEXT   NOT NULL,
    at      BIGINT NOT NULL,            -- when it was fetched
    before  BIGINT NOT NULL,            -- when the version before was; 0: there is none
    edition TEXT   NOT NULL,
    found   BIGINT NOT NULL
);
CREATE INDEX watch_notices_by_watch ON watch_notices (watch, found);
CREATE INDEX watch_notices_by_account ON watch_notices (account, found);

CREATE TABLE watch_deliveries (
    id       TEXT   PRIMARY KEY,
    watch    TEXT   NOT NULL,
    notice   TEXT   NOT NULL,           -- empty: asks to confirm the address
    channel  TEXT   NOT NULL,           -- mail or webhook
    state    TEXT   NOT NULL,           -- waiting, sent or dead
    due      BIGINT NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    error    TEXT   NOT NULL DEFAULT ''
);
CREATE INDEX watch_deliveries_by_due ON watch_deliveries (state, due);
CREATE INDEX watch_deliveries_by_watch ON watch_deliveries (watch);

-- How far the change feed was read.
CREATE TABLE watch_place (
    name  TEXT   PRIMARY KEY,
    since BIGINT NOT NULL
);

-- +goose Down
DROP TABLE watch_place;
DROP TABLE watch_deliveries;
DROP TABLE watch_notices;
DROP TABLE watches;
