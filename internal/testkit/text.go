package testkit

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
)

// Text returns n bytes that deflate about as well as pages. The same seed gives the same bytes.
func Text(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, "<p>%d %s</p>\n", r.IntN(1000), strings.Repeat("word ", r.IntN(4)))
	}
	return b.Bytes()[:n]
}
