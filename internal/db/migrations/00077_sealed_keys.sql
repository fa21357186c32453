-- Keys that processes without a shared directory share, each sealed by database.seal of the settings.

-- +goose Up
CREATE TABLE sealed_keys (
	name       TEXT    NOT NULL PRIMARY KEY, -- of the file in the data directory
	sealed     BLOB    NOT NULL              -- nonce and AES-256-GCM of its bytes, with the name as additional data
);

-- +goose Down
DROP TABLE sealed_keys;
