package catalog

// Boundaries names the durable writes of the catalog, kind by kind in their
// order: what a fault test has to die before and after, each. See Options.Boundary.
func Boundaries() []string {
	return []string{
		string(kindPublish) + writeRun, string(kindPublish) + writeVersion,
		string(kindMerge) + writeRun, string(kindMerge) + writeVersion,
		string(kindRemove) + writeRun, string(kindRemove) + writeVersion,
		string(kindRestore) + writeRun, string(kindRestore) + writeVersion,
	}
}

// What a durable write's name ends with; it begins with the kind of the version.
const (
	writeRun     = "-run"     // the sorted run in the store
	writeVersion = "-version" // the log's new entry: what makes it visible
)

// write performs one durable write between its two boundaries.
func (c *Catalog) write(name string, f func() error) error {
	c.opt.Boundary(name, "before")
	err := f()
	c.opt.Boundary(name, "after")
	return err
}
