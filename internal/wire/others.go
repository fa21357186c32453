package wire

// A foreign WARC file may have records that do not fit into a segment: requests, metadata,
// conversions, DNS, and truncated answers. They are stored beside the batch in one object, each as
// a gzip member as in WARC files. Records of a host that the batch brings are contiguous; all other
// records come first.

// ViewOthers is the name of the view that describes an entry's part of that object in the catalog.
const ViewOthers = "others"

// OthersKey returns the key of that object for a batch.
func OthersKey(id BatchID) string { return "batches/" + string(id) + ".others.warc.gz" }

// OthersIndexKey returns the key of the index of that object: one OtherRecords in each line, by
// host.
func OthersIndexKey(id BatchID) string { return "batches/" + string(id) + ".others.json" }

// OtherRecords are the records of one host in the object OthersKey.
type OtherRecords struct {
	Host    string `json:"host"` // empty: records of no host that the batch brings
	Offset  int64  `json:"offset"`
	Size    int64  `json:"size"`
	Records int64  `json:"records"`
	SHA256  string `json:"sha256"` // of the records' bytes
}
