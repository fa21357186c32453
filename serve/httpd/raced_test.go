//go:build race

package httpd_test

// raced says that the race detector makes everything slower.
const raced = true
