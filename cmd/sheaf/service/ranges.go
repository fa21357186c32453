package service

import (
	"net/http"
	"strings"
)

// byteRanges drops Range headers of other units than bytes, which a server that does not know them
// must ignore (RFC 9110, 14.2); net/http would answer 416.
func byteRanges(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if value := r.Header.Get("Range"); value != "" {
			unit, set, _ := strings.Cut(value, "=")
			if strings.EqualFold(strings.TrimSpace(unit), "bytes") {
				r.Header.Set("Range", "bytes="+set)
			} else {
				r.Header.Del("Range")
			}
		}
		next.ServeHTTP(w, r)
	})
}
