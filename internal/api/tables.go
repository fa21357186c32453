package api

// Names of tables. The path of a query's table is PathTables and the name; the name of a volume's
// table begins with the volume's number and a dot.
const (
	TableOfRecords = "records.parquet"
	TableOfHosts   = "hosts.parquet"
	TableOfLinks   = "links.parquet"

	// The texts of pages, as a table and as WET: see package texts. Volumes and hosts have both
	// files.
	TableOfTexts = "texts.parquet"
	TextsAsWET   = "wet.gz"

	// The links of TableOfLinks, ordered by target, and the hosts that link to other hosts. Only
	// volumes of the latest versions have these tables.
	TableOfInlinks   = "inlinks.parquet"
	TableOfLinkHosts = "linkhosts.parquet"
)

// Parquet is the media type of tables.
const Parquet = "application/vnd.apache.parquet"
