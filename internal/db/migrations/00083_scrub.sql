-- How far the reading and verifying of the whole store is, and what it has found (JSON).

-- +goose Up
CREATE TABLE scrub (
    id    INTEGER PRIMARY KEY CHECK (id = 1), -- there is one row
    state TEXT NOT NULL
);

-- +goose Down
DROP TABLE scrub;
