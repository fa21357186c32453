// Package display formats and parses sizes, parses times, and makes foreign names harmless.
//
// # Sizes
//
// ParseBytes and FormatBytes parse and format numbers of bytes, such as 64KiB and 1.5GiB. Units are
// powers of 1024.
//
// # Times
//
// ParseDayOrTime parses the beginning or end of a period: a day, or a time. ParsePeriod parses the
// beginning and the end.
//
// # Foreign names
//
// Harmless keeps foreign names from controlling a terminal. URLs, names of files and messages that
// quote them come from the web: an escape sequence could clear the screen, or change the text of a
// line.
package display
