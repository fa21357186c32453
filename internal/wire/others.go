package wire

// A foreign file holds records that no segment has a place for: requests, metadata, conversions, DNS, and answers
// that had to be cut. They are kept beside its batch in one object, each a gzip member as WARC files have it; those of a
// host that the batch brings lie together, those of no such host before all others.

// ViewOthers is the name under which a catalog line has its share of that object.
const ViewOthers = "others"

// OthersKey names the object of a batch.
func OthersKey(id BatchID) string { return "batches/" + string(id) + ".others.warc.gz" }

// OthersIndexKey names the object that says where whose records lie: an OtherRecords a line, by host.
func OthersIndexKey(id BatchID) string { return "batches/" + string(id) + ".others.json" }

// OtherRecords are the records of one host in the object of OthersKey.
type OtherRecords struct {
	Host    string `json:"host"` // empty: of no host that the batch brings
	Offset  int64  `json:"offset"`
	Size    int64  `json:"size"`
	Records int64  `json:"records"`
	SHA256  string `json:"sha256"` // of these bytes
}
