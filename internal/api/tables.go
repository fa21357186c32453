package api

// Names of tables. Those of a query's answer are behind PathTables; those of a volume's files are
// behind the volume's number and a dot.
const (
	TableOfRecords = "records.parquet"
	TableOfHosts   = "hosts.parquet"
	TableOfLinks   = "links.parquet"
)

// Parquet is the media type of tables.
const Parquet = "application/vnd.apache.parquet"
