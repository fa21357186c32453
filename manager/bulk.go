package manager

import (
	"slices"
	"strings"
)

// rowsAtOnce is how many rows one statement takes. Each statement to a PostgreSQL server is a journey to it
// and back, which is most of what a row costs. Either database takes 32,766 parameters.
const rowsAtOnce = 500

// insert enters rows by the statement's beginning, up to its VALUES. All rows are of one width. Rows that are there
// already are left out.
func (e *edit) insert(into string, rows [][]any) error {
	for some := range slices.Chunk(rows, rowsAtOnce) {
		if _, err := e.exec(into+` VALUES `+tuples(len(some), len(some[0]))+` ON CONFLICT DO NOTHING`, slices.Concat(some...)...); err != nil {
			return err
		}
	}
	return nil
}

// tuple gives so many parameters, in brackets.
func tuple(width int) string { return "(?" + strings.Repeat(", ?", width-1) + ")" }

// tuples gives the parameters of so many rows.
func tuples(rows, width int) string {
	one := tuple(width)
	return one + strings.Repeat(", "+one, rows-1)
}

// anys gives texts as a statement's arguments.
func anys(texts []string) []any {
	args := make([]any, len(texts))
	for i, t := range texts {
		args[i] = t
	}
	return args
}
