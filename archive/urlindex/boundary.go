package urlindex

// Boundaries names the durable writes of a Builder: what a fault test has to die before
// and after, each. See Options.Boundary.
func Boundaries() []string {
	var names []string
	for _, k := range []kind{kindBuild, kindSweep, kindMerge} {
		for _, w := range []string{writeRows, writeBlocks, writePlaces, writePages, writeState} {
			names = append(names, string(k)+w)
		}
	}
	return append(names, string(kindReset)+writeState)
}

// What the name of a durable write ends with; it begins with the kind of the state.
const (
	writeRows   = "-rows"   // cdx.gz in the store
	writeBlocks = "-blocks" // cluster.idx
	writePlaces = "-places" // location.txt
	writePages  = "-pages"  // pages
	writeState  = "-state"  // the log's new entry: what makes the run visible
)

// write performs one durable write between its two boundaries.
func (b *Builder) write(name string, f func() error) error {
	b.opt.Boundary(name, "before")
	err := f()
	b.opt.Boundary(name, "after")
	return err
}
