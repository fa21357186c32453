-- The audit log: one row for each act, log-in and failure. Rows are only added, until they expire.

-- +goose Up
CREATE TABLE audit (
    id      INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    kind    TEXT NOT NULL, -- of the actor: operator, account, robot, visitor, command
    name    TEXT NOT NULL, -- of the actor; '' is nobody known
    address TEXT NOT NULL, -- where the request came from; '' is unknown, or kept long enough
    act     TEXT NOT NULL,
    object  TEXT NOT NULL, -- what the act was about, such as "account alice"
    outcome TEXT NOT NULL CHECK (outcome IN ('ok', 'failed', 'refused')),
    reason  TEXT NOT NULL, -- why, as the actor said; of what did not succeed, as the service said
    request TEXT NOT NULL  -- ID of the HTTP request, as a proxy gave it
) STRICT;
CREATE INDEX audit_by_time ON audit (at);
CREATE INDEX audit_by_name ON audit (name, id);
CREATE INDEX audit_with_address ON audit (at) WHERE address <> '';
CREATE INDEX transfers_with_address ON transfers (at) WHERE direction = 'download' AND remote <> '';

-- +goose Down
DROP INDEX transfers_with_address;
DROP TABLE audit;
