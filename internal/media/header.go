package media

import (
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"strings"
)

// StoredFields yields the header fields, names and values, with which a response is stored. The
// body is stored without transfer coding and, if decoded is true, without content coding. So fields
// that describe how the body was sent are renamed X-Crawler-…, and Content-Length becomes size, the
// length in bytes of the stored body. If size is negative, the body is stored elsewhere, and there
// is no Content-Length. The fields of a response without a body (status 204 or 304) stay as they
// are.
func StoredFields(fields iter.Seq2[string, string], status int, decoded bool, size int64) iter.Seq2[string, string] {
	if size == 0 && (status == http.StatusNotModified || status == http.StatusNoContent) {
		return fields
	}
	return func(yield func(name, value string) bool) {
		length := strconv.FormatInt(size, 10)
		told := false
		for name, value := range fields {
			switch {
			case strings.EqualFold(name, "Transfer-Encoding"), strings.EqualFold(name, "Content-Encoding") && decoded:
				name = "X-Crawler-" + name
			case strings.EqualFold(name, "Content-Length"):
				if size < 0 {
					name = "X-Crawler-" + name
					break
				}
				if !told && !yield(name, length) {
					return
				}
				told = true
				if value == length {
					continue
				}
				name = "X-Crawler-" + name
			}
			if !yield(name, value) {
				return
			}
		}
		if !told && size >= 0 {
			yield("Content-Length", length)
		}
	}
}

// IsPartial reports whether an answer has only a part of the page: its status is 206, and its
// Content-Range does not say that the part is all of it. Browsers ask for films in parts, and the
// first part may be all of the film.
func IsPartial(status int, contentRange string) bool {
	if status != http.StatusPartialContent {
		return false
	}
	var first, last, size int64
	n, err := fmt.Sscanf(strings.ToLower(contentRange), "bytes %d-%d/%d", &first, &last, &size)
	return n < 3 || err != nil || first != 0 || last != size-1
}
