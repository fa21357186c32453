package urlindex

// Suffixes of the names of durable writes. The state's kind comes before them.
const (
	writeRows   = "-rows"   // cdx.gz
	writeBlocks = "-blocks" // cluster.idx
	writePlaces = "-places" // location.txt
	writePages  = "-pages"  // pages
	writeState  = "-state"  // the log's new entry, which makes the run visible
)
