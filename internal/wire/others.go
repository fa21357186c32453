package wire

// A foreign WARC file may have records that do not fit into a segment: requests, metadata,
// conversions, DNS, and truncated answers. They are stored beside the batch in one object, each as
// a gzip member as in WARC files. Records of a host that the batch brings are contiguous; all other
// records come first.

// ViewOthers is the name of the view in the catalog that describes an entry's part of the object at
// OthersKey.
const ViewOthers = "others"

// OthersKey returns the key of the object with a batch's records that do not fit into a segment.
func OthersKey(id BatchID) string { return "batches/" + string(id) + ".others.warc.gz" }

// OthersIndexKey returns the key of the index of the object at OthersKey. Each line of the index is
// the OtherRecords of one host.
func OthersIndexKey(id BatchID) string { return "batches/" + string(id) + ".others.json" }

// OtherRecords describes the records of one host in the object at OthersKey.
type OtherRecords struct {
	Host    string `json:"host"` // empty: records of no host that the batch brings
	Offset  int64  `json:"offset"`
	Size    int64  `json:"size"`
	Records int64  `json:"records"`
	SHA256  string `json:"sha256"` // of the records' bytes
}
