-- The keys that the service has signed with, and the next one. service_key has the public half of
-- the one that signs.

-- +goose Up
CREATE TABLE service_keys (
	number    INTEGER PRIMARY KEY,
	public    BLOB    NOT NULL UNIQUE,
	made      INTEGER NOT NULL,           -- ms; 0: before this table
	used      INTEGER NOT NULL DEFAULT 0, -- ms: since when it signs; 0: not yet, or since before this table
	signature BLOB,                       -- of the statement that it comes next, by the key before; NULL: there is none
	proof     BLOB                        -- that it signs, by itself; NULL: not yet
);
INSERT INTO service_keys (number, public, made) SELECT 1, public, 0 FROM service_key;

ALTER TABLE robots ADD COLUMN service_key BLOB;                       -- public half of the newest that the robot knows; NULL: none
ALTER TABLE robots ADD COLUMN key_asked INTEGER NOT NULL DEFAULT 0;    -- ms: when it last asked for newer ones; 0: never since it joined
UPDATE robots SET service_key = (SELECT public FROM service_key) WHERE secret_hash IS NOT NULL;

-- +goose Down
ALTER TABLE robots DROP COLUMN key_asked;
ALTER TABLE robots DROP COLUMN service_key;
DROP TABLE service_keys;
