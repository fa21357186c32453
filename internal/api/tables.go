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

	// The links of TableOfLinks in the order of where they lead, and the hosts that have links to
	// others. Volumes of the latest versions have them.
	TableOfInlinks   = "inlinks.parquet"
	TableOfLinkHosts = "linkhosts.parquet"
)

// Parquet is the media type of tables.
const Parquet = "application/vnd.apache.parquet"
