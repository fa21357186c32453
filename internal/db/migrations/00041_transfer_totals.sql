-- Sums of transfers by the hour in which they began and, of hours long ago, by the day.

-- +goose Up
CREATE TABLE transfer_totals (
    span      TEXT NOT NULL CHECK (span IN ('hour', 'day')),
    begin     INTEGER NOT NULL,
    direction TEXT NOT NULL,
    protocol  TEXT NOT NULL,
    who       TEXT NOT NULL,
    transfers INTEGER NOT NULL,
    aborted   INTEGER NOT NULL, -- of the transfers
    bytes     INTEGER NOT NULL,
    took_us   INTEGER NOT NULL, -- microseconds, added up
    PRIMARY KEY (span, begin, direction, protocol, who)
) STRICT, WITHOUT ROWID;
CREATE INDEX transfer_totals_by_time ON transfer_totals (begin);
INSERT INTO transfer_totals
    SELECT 'hour', at - at % 3600000, direction, protocol, who, COUNT(*), SUM(CASE outcome WHEN 'aborted' THEN 1 ELSE 0 END), SUM(bytes), SUM(took_us)
    FROM transfers GROUP BY at - at % 3600000, direction, protocol, who;

-- +goose Down
DROP TABLE transfer_totals;
