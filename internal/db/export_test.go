package db

import (
	"context"
	"database/sql"
	"io/fs"
)

// OpenWith is Open with the migrations of files.
func OpenWith(ctx context.Context, source string, files fs.FS) (*sql.DB, error) {
	return openAt(ctx, source, schema{files: files})
}

// FillUpTo is Fill with the migrations of files.
var FillUpTo = fillUpTo
