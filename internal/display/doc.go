// Package display formats what people read, and reads what people write.
//
// # Sizes
//
// ParseBytes and FormatBytes have numbers of bytes, such as 64KiB and 1.5GiB. Units are powers of
// 1024.
//
// # Times
//
// ParseDayOrTime has the beginning or end of a period: a day, or a time.
//
// # What others have named
//
// Harmless keeps what others have named from commanding a terminal. URLs, names of files and
// messages that quote them come from the web: an escape sequence in one could clear the screen, or
// make a line of it say something else.
package display
