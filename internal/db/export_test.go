package db

// MigrateTo is for tests.
var MigrateTo = migrateTo
