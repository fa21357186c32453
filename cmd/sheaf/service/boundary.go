package service

import (
	"slices"

	"sheaf/archive/catalog"
	"sheaf/ingest/receive"
	"sheaf/ingest/stage"
)

// Option changes how New puts a service together.
type Option func(*Service)

// WithBoundary has f called before and after each durable write of a batch's way,
// with one of Boundaries and "before" or "after": a fault test dies in it.
// Writes go on at once in many goroutines, and so do the calls.
func WithBoundary(f func(write, when string)) Option {
	return func(s *Service) { s.boundary = f }
}

// Boundaries names the durable writes of every room as "room/write", in the order
// in which a batch meets them.
func Boundaries() []string {
	var names []string
	for _, r := range []struct {
		room   string
		writes []string
	}{
		{roomReceive, receive.Boundaries()},
		{roomIngest, slices.Concat(stage.Boundaries(), stage.DecisionBoundaries())},
		{roomCatalog, slices.Concat(catalog.Boundaries(), catalog.UpkeepBoundaries())},
	} {
		for _, write := range r.writes {
			names = append(names, r.room+"/"+write)
		}
	}
	return names
}

const (
	roomReceive = "receive"
	roomIngest  = "ingest"
	roomCatalog = "catalog"
)

// in gives a room's part of the boundary.
func (s *Service) in(room string) func(write, when string) {
	return func(write, when string) { s.boundary(room+"/"+write, when) }
}
