-- What owners of sites ask to be removed, the domains that robots leave out, and mails that wait to
-- be sent. Times are milliseconds since 1970.

-- +goose Up
CREATE TABLE removals (
    id      TEXT PRIMARY KEY,
    secret  TEXT NOT NULL,              -- of the link to its page
    wish    TEXT NOT NULL,              -- removal or exclusion
    kind    TEXT NOT NULL,              -- host, prefix or domain
    target  TEXT NOT NULL,              -- the host, URL or domain
    site    TEXT NOT NULL,              -- registered domain of the target, for limits
    email   TEXT NOT NULL,              -- of the asker
    reason  TEXT NOT NULL,
    lang    TEXT NOT NULL,              -- of the form, and so of the mails
    network TEXT NOT NULL,              -- from which it was asked, for limits; '' after a day
    created INTEGER NOT NULL,
    state   TEXT NOT NULL,              -- open, proved, granted, refused or expired
    proof   TEXT NOT NULL DEFAULT '',   -- how it was proved; '': not
    answer  TEXT NOT NULL DEFAULT '',   -- the operator's words to the asker
    decided INTEGER NOT NULL DEFAULT 0,
    carried INTEGER NOT NULL DEFAULT 0, -- when a grant was carried out
    code_hash  BLOB,                    -- SHA-256 of the code in the last mail to the site
    code_to    TEXT NOT NULL DEFAULT '',
    code_until INTEGER NOT NULL DEFAULT 0,
    code_tries INTEGER NOT NULL DEFAULT 0,
    codes      INTEGER NOT NULL DEFAULT 0, -- mails with codes that were sent
    checks     INTEGER NOT NULL DEFAULT 0, -- how often file or DNS were looked at
    checked    INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX removals_by_state ON removals (state, created);
CREATE INDEX removals_by_created ON removals (created);

CREATE TABLE removal_events (
    removal TEXT NOT NULL,
    n       INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    by_whom TEXT NOT NULL,              -- asker, service, or an operator's name
    act     TEXT NOT NULL,
    note    TEXT NOT NULL,
    PRIMARY KEY (removal, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE refused_domains (
    domain  TEXT PRIMARY KEY,           -- no host of it is collected, except those that an operator adds
    created INTEGER NOT NULL,
    by_whom TEXT NOT NULL,
    reason  TEXT NOT NULL
) STRICT;

CREATE TABLE mails (
    id        TEXT PRIMARY KEY,
    recipient TEXT NOT NULL,
    subject   TEXT NOT NULL,
    body      TEXT NOT NULL,
    due       INTEGER NOT NULL,
    attempts  INTEGER NOT NULL DEFAULT 0,
    failed    INTEGER NOT NULL DEFAULT 0, -- 1: given up
    error     TEXT NOT NULL DEFAULT '',
    created   INTEGER NOT NULL
) STRICT;
CREATE INDEX mails_by_due ON mails (failed, due);

-- +goose Down
DROP TABLE mails;
DROP TABLE refused_domains;
DROP TABLE removal_events;
DROP TABLE removals;
