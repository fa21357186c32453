package page

import (
	"strings"

	"sheaf/internal/media"
)

// css adds the URLs of a style sheet, found as replay finds them.
func (c *collector) css(sheet []byte, tag string) {
	for r := range media.StyleRefs(sheet, nil) {
		c.add(media.UnescapeStyle(string(r.Raw)), Link{Tag: tag})
	}
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
