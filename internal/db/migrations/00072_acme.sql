-- Certificates by ACME, which all processes share.

-- +goose Up
CREATE TABLE acme (
	name       TEXT    NOT NULL PRIMARY KEY, -- what it is, and of which authority and names
	value      TEXT    NOT NULL,             -- keys and certificates in PEM, answers to challenges, the number of failures
	at_ms      INTEGER NOT NULL              -- of an attempt: when the next may begin; of others: when they were written
);

-- +goose Down
DROP TABLE acme;
