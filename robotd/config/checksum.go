package config

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// Summed returns the text with its checksum before it.
func Summed(text string) string {
	return fmt.Sprintf("%08x %s", crc32.ChecksumIEEE([]byte(text)), text)
}

// Unsummed returns the text after the checksum, and whether the checksum is right.
func Unsummed(line string) (text string, ok bool) {
	sum, text, _ := strings.Cut(line, " ")
	want, err := strconv.ParseUint(sum, 16, 32)
	return text, err == nil && len(sum) == 8 && uint32(want) == crc32.ChecksumIEEE([]byte(text))
}
