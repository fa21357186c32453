package catalog

// Boundaries names the durable writes of the catalog, kind by kind in their
// order: what a fault test has to die before and after, each. See Options.Boundary.
func Boundaries() []string {
	return []string{
		string(kindPublish) + writeRun, string(kindPublish) + writeVersion,
		string(kindMerge) + writeRun, string(kindMerge) + writeVersion,
		string(kindRemove) + writeRun, string(kindRemove) + writeVersion,
	}
}

// UpkeepBoundaries names those of lifting a take-down, of collection and of retention.
func UpkeepBoundaries() []string {
	return []string{
		string(kindRestore) + writeRun, string(kindRestore) + writeVersion,
		writeCondemn, string(kindErase) + writeRun, string(kindErase) + writeVersion, writeCollect, writeCollected,
		string(kindExpire) + writeRun, string(kindExpire) + writeVersion,
	}
}

// What the name of a version's durable write ends with; it begins with the version's kind.
const (
	writeRun     = "-run"     // the sorted run in the store
	writeVersion = "-version" // the log's new entry: what makes it visible
)

// Collection's durable writes beside those of an erase.
const (
	writeCondemn   = "condemn"   // a list of objects without need
	writeCollect   = "collect"   // one of them deleted
	writeCollected = "collected" // a list deleted, of which all is done
)
