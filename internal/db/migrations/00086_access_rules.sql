-- What not everybody may see: see serve/access.

-- +goose Up
CREATE TABLE access_rules (
	id      INTEGER PRIMARY KEY,
	rule    TEXT    NOT NULL,           -- JSON
	created INTEGER NOT NULL,           -- ms
	removed INTEGER NOT NULL DEFAULT 0, -- ms; 0: in force
	told    INTEGER NOT NULL DEFAULT 0, -- ms: until when the change feed has told of what its embargo has set free
	epoch   INTEGER NOT NULL DEFAULT 0  -- how often that was too much to tell, so that followers begin anew
);

-- +goose Down
DROP TABLE access_rules;
