package records

// OccupyMany takes the place of those who find many records of a URL, until leave is called.
func (r *Records) OccupyMany() (leave func()) {
	r.many <- struct{}{}
	return func() { <-r.many }
}

// Many is how many records of a URL are many.
const Many = manyRecords
