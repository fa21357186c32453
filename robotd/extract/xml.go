package extract

import (
	"strings"

	"golang.org/x/net/html"
)

// xml takes the links of sitemaps (loc) and of RSS and Atom feeds (link, by
// text or href; enclosure). It reads tokens as HTML does, which forgives what
// an XML reader would not.
func (c *collector) xml(text string) {
	z := html.NewTokenizer(strings.NewReader(text))
	z.SetMaxBuf(MaxBytes + 1)
	tag := ""
	var content strings.Builder
	flush := func() {
		if ref := strings.TrimSpace(content.String()); ref != "" && tag != "" {
			c.add(ref, Link{Tag: tag, Text: true})
		}
		tag = ""
		content.Reset()
	}
	for {
		switch z.Next() {
		case html.ErrorToken:
			return
		case html.TextToken:
			if tag != "" && content.Len() < 16<<10 {
				content.Write(z.Text())
			}
		case html.CommentToken: // <![CDATA[…]]> reads as one
			if cdata, ok := strings.CutPrefix(string(z.Text()), "[CDATA["); ok && tag != "" {
				content.WriteString(strings.TrimSuffix(cdata, "]]"))
			}
		case html.EndTagToken:
			flush()
		case html.StartTagToken, html.SelfClosingTagToken:
			content.Reset()
			name, more := z.TagName()
			switch n := string(name); {
			case n == "loc":
				tag = "sitemap"
			case n == "link":
				tag = "feed"
			case n == "html": // XHTML by another name
				c.html(text)
				return
			default:
				tag = ""
			}
			if !more {
				continue
			}
			switch attrs := attributes(z); string(name) {
			case "link":
				if href := attrs["href"]; href != "" {
					c.add(href, Link{Tag: "feed", Rel: strings.ToLower(attrs["rel"]), Text: true})
				}
			case "enclosure":
				if url := attrs["url"]; url != "" {
					c.add(url, Link{Tag: "feed"})
				}
			}
		}
	}
}
