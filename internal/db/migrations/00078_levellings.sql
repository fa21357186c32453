-- What the last levellings had robots pass on, for operators.

-- +goose Up
CREATE TABLE levellings (
    made  BIGINT PRIMARY KEY, -- Unix ms
    flows TEXT   NOT NULL     -- JSON, see manager/levelling
);

-- +goose Down
DROP TABLE levellings;
