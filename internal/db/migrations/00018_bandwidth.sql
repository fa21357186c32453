-- How fast and how much accounts may fetch. rate is in the grammar of
-- serve/bandwidth, empty for no limit; quota is bytes a day, 0 for none.

-- +goose Up
ALTER TABLE accounts ADD COLUMN rate TEXT NOT NULL DEFAULT '';
ALTER TABLE accounts ADD COLUMN quota BIGINT NOT NULL DEFAULT 0;

-- What every account has had of a day (20261121, in the service's zone).
CREATE TABLE account_bytes (
    account TEXT   NOT NULL,
    day     TEXT   NOT NULL,
    bytes   BIGINT NOT NULL,
    PRIMARY KEY (account, day)
);
CREATE INDEX account_bytes_by_day ON account_bytes (day);

-- +goose Down
DROP TABLE account_bytes;
ALTER TABLE accounts DROP COLUMN quota;
ALTER TABLE accounts DROP COLUMN rate;
