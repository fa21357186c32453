-- Hosts that an operator wants visited now, until their robot has noted it.

-- +goose Up
CREATE TABLE visit_orders (
    host    TEXT NOT NULL,
    robot   TEXT NOT NULL,    -- '': whichever has the host
    ordered INTEGER NOT NULL, -- when
    PRIMARY KEY (host, robot)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE visit_orders;
