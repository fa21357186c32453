package urlindex

// Boundaries returns the names of a Builder's durable writes. A fault test must stop the Builder
// before and after each. See Options.Boundary.
func Boundaries() []string {
	var names []string
	for _, k := range []kind{kindBuild, kindSweep, kindMerge} {
		for _, w := range []string{writeRows, writeBlocks, writePlaces, writePages, writeState} {
			names = append(names, string(k)+w)
		}
	}
	return append(names, string(kindReset)+writeState)
}
