package results

import (
	"io"
	"time"

	"sheaf/serve/library"
)

// changeRow is a row of a table of what a day changed. docs/queries.md describes the columns.
type changeRow struct {
	Host       string     `parquet:"host,dict"`
	URL        *string    `parquet:"url,optional"`
	ID         *string    `parquet:"id,optional"`
	Change     string     `parquet:"change,dict"`
	Time       *time.Time `parquet:"time,optional,timestamp(microsecond)"`
	Status     *int32     `parquet:"status,optional"`
	Digest     *string    `parquet:"digest,optional"`
	File       *string    `parquet:"file,optional"`
	To         *string    `parquet:"to,optional"`
	Forbidden  *string    `parquet:"forbidden,optional,dict"`
	Day        *string    `parquet:"day,optional,dict"`
	Volume     *string    `parquet:"volume,optional,dict"`
	TarOffset  *int64     `parquet:"tar_offset,optional"`
	TarLength  *int64     `parquet:"tar_length,optional"`
	WARCOffset *int64     `parquet:"warc_offset,optional"`
	WARCLength *int64     `parquet:"warc_length,optional"`
}

// Changes writes a table of what a day changed. It must not be used concurrently.
type Changes struct{ *rowWriter[changeRow] }

// NewChanges begins a table in to. Close must end it.
func NewChanges(to io.Writer) *Changes { return &Changes{newRowWriter[changeRow](to)} }

// Add adds a row, which may wait in memory until Close.
func (c *Changes) Add(l library.DayChange) error {
	row := changeRow{Host: l.Host, URL: some(l.URL), ID: some(l.ID), Change: l.Change, Time: some(l.Time), Status: some(int32(l.Status)), Digest: some(l.Digest), File: some(l.File), To: some(l.To), Forbidden: some(l.Forbidden)}
	if at := l.DayPlace; at != nil {
		row.Day, row.Volume = &at.Day, &at.Volume
		row.TarOffset, row.TarLength, row.WARCOffset, row.WARCLength = &at.Tar.Offset, &at.Tar.Length, &at.WARC.Offset, &at.WARC.Length
	}
	return c.write(row)
}

// some returns a value for an optional column: nil for the zero value.
func some[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}
