-- Operators who log in at an OpenID provider. They have no password.

-- +goose Up
ALTER TABLE operators ADD COLUMN subject TEXT NOT NULL DEFAULT ''; -- issuer and subject, separated by a space; '': logs in by password
CREATE UNIQUE INDEX operators_by_subject ON operators (subject) WHERE subject <> '';

-- +goose Down
DROP INDEX operators_by_subject;
DELETE FROM operators WHERE subject <> '';
ALTER TABLE operators DROP COLUMN subject;
