package catalog

// Boundaries returns the names of the catalog's durable writes. Each method makes its writes in the
// order given. A fault test must stop the process before and after each write.
func Boundaries() []string {
	return []string{
		string(kindPublish) + writeRun, string(kindPublish) + writeVersion,
		string(kindMerge) + writeRun, string(kindMerge) + writeVersion,
		string(kindRemove) + writeRun, string(kindRemove) + writeVersion,
		string(kindRestore) + writeRun, string(kindRestore) + writeVersion, string(kindRestrict) + writeRun, string(kindRestrict) + writeVersion,
		writeCondemn, string(kindErase) + writeRun, string(kindErase) + writeVersion, writeCollect, writeCollected,
		string(kindExpire) + writeRun, string(kindExpire) + writeVersion,
	}
}

// Suffixes of the names of durable writes. The version's kind comes before them.
const (
	writeRun     = "-run"     // the sorted run is stored
	writeVersion = "-version" // the version is appended, which makes the run visible
)

// Names of Collect's durable writes, except for its versions.
const (
	writeCondemn   = "condemn"   // a list of marked objects is stored
	writeCollect   = "collect"   // a marked object is deleted
	writeCollected = "collected" // a list is deleted, after its objects
)
