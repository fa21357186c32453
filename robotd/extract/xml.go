package extract

import (
	"bytes"
	"strings"

	"golang.org/x/net/html"
)

// xml takes the links of sitemaps (loc, their images' and videos' too) and of RSS
// and Atom feeds (link, by text or href; enclosure; guid; content by src). It reads tokens as HTML does, which forgives what
// an XML reader would not.
func (c *collector) xml(text []byte) {
	z := html.NewTokenizer(bytes.NewReader(text))
	z.SetMaxBuf(MaxBytes + 1)
	tag := ""
	var attrs attributes
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
			_, n, prefixed := strings.Cut(string(name), ":")
			if !prefixed {
				n = string(name)
			}
			switch {
			case n == "loc" || strings.HasSuffix(n, "_loc"):
				tag = "sitemap"
			case n == "link", n == "guid" && !more: // with isPermaLink it may be no link
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
			switch attrs = attrs.read(z); n {
			case "link":
				if href := attrs.get("href"); href != "" {
					c.add(href, Link{Tag: "feed", Rel: strings.ToLower(attrs.get("rel")), Text: true})
				}
			case "guid":
				if !strings.EqualFold(attrs.get("ispermalink"), "false") {
					tag = "feed"
				}
			case "outline": // of a list of feeds (OPML)
				for _, key := range []string{"xmlurl", "htmlurl"} {
					if url := attrs.get(key); url != "" {
						c.add(url, Link{Tag: "feed", Text: true})
					}
				}
			case "content", "thumbnail":
				for _, key := range []string{"src", "url"} {
					if url := attrs.get(key); url != "" {
						c.add(url, Link{Tag: "feed"})
					}
				}
			case "enclosure":
				if url := attrs.get("url"); url != "" {
					c.add(url, Link{Tag: "feed"})
				}
			}
		}
	}
}
