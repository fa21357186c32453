package api

// Names of tables. The path of a query's table is PathTables and the name; the name of a volume's
// table begins with the volume's number and a dot.
const (
	TableOfRecords = "records.parquet"
	TableOfHosts   = "hosts.parquet"
	TableOfLinks   = "links.parquet"

	// The texts of pages, which volumes and hosts have: see package texts.
	TableOfTexts = "texts.parquet"
	TextsAsWET   = "wet.gz"
)

// Parquet is the media type of tables.
const Parquet = "application/vnd.apache.parquet"
