package foreign

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"mime"
	"mime/multipart"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"sheaf/archive/naming"
	"sheaf/internal/media"
	"sheaf/internal/weburl"
)

// The answer to a request with another method than GET is no page of its URL. Its record gets a URL
// with the request's method and body in the query, by the IIPC's guideline "CDX for non-GET
// requests" (https://iipc.github.io/warc-specifications/guidelines/cdx-non-get-requests/). So its
// URL key is the one that pywb and cdxj-indexer write.
const (
	methodParam = "__wb_method="
	bodyParam   = "__wb_post_data="
)

const (
	maxBodyQuery = 4096    // characters of a body in a query; pywb cuts it there too
	maxAsked     = 4 << 20 // bytes of a request's body that are read
	noLength     = 8192    // bytes that are read if the request does not state its length, as in pywb
)

// methodQuery returns what the request in a block adds to its URL's query. It returns "" for GET,
// and if the block is no HTTP request.
func methodQuery(b *block) (string, error) {
	const maxHead = 256 << 10
	raw, err := io.ReadAll(io.LimitReader(b.from(0), maxHead))
	if err != nil {
		return "", err
	}
	head, _, ok := cutHead(raw)
	if !ok {
		return "", nil
	}
	h := parseHead(head)
	method, rest, _ := strings.Cut(h.first, " ")
	if method == "GET" || !httpguts.ValidHeaderFieldName(method) || strings.TrimSpace(rest) == "" {
		return "", nil
	}
	query := methodParam + method
	if method != "POST" && method != "PUT" {
		return query, nil
	}
	body, err := requestBody(h, b.from(int64(len(head))))
	if err != nil {
		return "", err
	}
	if text := bodyQuery(h.get("Content-Type"), body); text != "" {
		query += "&" + cutRunes(text, maxBodyQuery)
	}
	return query, nil
}

// requestBody reads the part of a request's body that goes into the query.
func requestBody(h httpHead, in io.Reader) ([]byte, error) {
	if strings.EqualFold(h.get("Transfer-Encoding"), "chunked") {
		in = media.NewChunks(in)
	}
	size := int64(noLength)
	if text := h.get("Content-Length"); text != "" {
		var err error
		if size, err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, nil
		}
	}
	body, err := io.ReadAll(io.LimitReader(in, min(size, maxAsked)))
	var disk *fs.PathError
	if !errors.As(err, &disk) { // otherwise the chunks are wrong here, and the body ends
		err = nil
	}
	return body, err
}

// bodyQuery returns a body as a part of a query.
func bodyQuery(mediaType string, body []byte) string {
	if len(body) == 0 {
		return ""
	}
	mediaType = strings.TrimSpace(mediaType)
	is := func(kind string) bool {
		return len(mediaType) >= len(kind) && strings.EqualFold(mediaType[:len(kind)], kind)
	}
	query, ok := "", false
	switch {
	case is("application/x-www-form-urlencoded"):
		query, ok = unquotePlus(string(body)), utf8.Valid(body)
	case is("multipart/"):
		query, ok = partsQuery(mediaType, body)
	case is("application/json"):
		query, _ = jsonQuery(body)
		return query
	case is("text/plain"):
		query, ok = jsonQuery(body)
	}
	if !ok {
		return bodyParam + base64.StdEncoding.EncodeToString(body)
	}
	return query
}

// unquotePlus decodes percent-encoding and plus signs. Wrong encodings stay unchanged.
func unquotePlus(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '+' {
			c = ' '
		} else if c == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				c = byte(n)
				i += 2
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}

// partsQuery returns the parts of a multipart form as parameters. ok is false if the body is no
// such form.
func partsQuery(mediaType string, body []byte) (query string, ok bool) {
	_, params, err := mime.ParseMediaType(mediaType)
	if err != nil || params["boundary"] == "" {
		return "", false
	}
	var list []string
	for parts := multipart.NewReader(bytes.NewReader(body), params["boundary"]); ; {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			return strings.Join(list, "&"), true
		}
		if err != nil {
			return "", false
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return "", false
		}
		value := string(content)
		if part.FileName() == "" && !utf8.ValidString(value) {
			value = bodyParam + base64.StdEncoding.EncodeToString(content)
		}
		list = append(list, url.QueryEscape(part.FormName())+"="+url.QueryEscape(value))
	}
}

// jsonQuery returns the values of one JSON text, or of several texts, one a line, as parameters. ok
// is false if the body has anything else.
func jsonQuery(body []byte) (query string, ok bool) {
	texts := [][]byte{body}
	if !json.Valid(body) {
		texts = bytes.Split(body, []byte("\n"))
	}
	f := jsonFields{at: make(map[string]int), seen: make(map[string]int)}
	for _, text := range texts {
		if !json.Valid(text) || !utf8.Valid(text) {
			return "", false
		}
		in := json.NewDecoder(bytes.NewReader(text))
		in.UseNumber()
		if err := f.value(in, ""); err != nil {
			return "", false
		}
	}
	return strings.Join(f.list, "&"), true
}

// jsonFields are the values of JSON texts with the names of their fields, in order.
type jsonFields struct {
	list []string
	at   map[string]int // by name: index in the list
	seen map[string]int // by name: how often it came
}

// value reads the next JSON value and adds it under a name.
func (f *jsonFields) value(in *json.Decoder, name string) error {
	token, err := in.Token()
	if err != nil {
		return err
	}
	switch v := token.(type) {
	case json.Delim:
		for in.More() {
			of := name
			if v == '{' {
				key, err := in.Token()
				if err != nil {
					return err
				}
				of = key.(string) // a valid object has no other keys
			}
			if err := f.value(in, of); err != nil {
				return err
			}
		}
		_, err := in.Token()
		return err
	case string:
		f.add(name, v)
	case json.Number:
		f.add(name, pythonNumber(v.String()))
	case bool:
		f.add(name, map[bool]string{false: "False", true: "True"}[v])
	case nil:
		f.add(name, "None")
	}
	return nil
}

// add adds a value. A name that is already in the list gets a number.
func (f *jsonFields) add(name, value string) {
	if name == "" {
		return
	}
	if _, again := f.at[name]; again {
		first := name
		f.seen[first] = max(f.seen[first], 1) + 1
		name = first + "." + strconv.Itoa(f.seen[first]) + "_"
	}
	param := url.QueryEscape(name) + "=" + url.QueryEscape(value)
	if at, again := f.at[name]; again {
		f.list[at] = param
		return
	}
	f.at[name] = len(f.list)
	f.list = append(f.list, param)
}

// pythonNumber returns a JSON number as Python prints it, because pywb's keys have this form.
func pythonNumber(text string) string {
	if !strings.ContainsAny(text, ".eE") {
		return text
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return map[bool]string{false: "inf", true: "-inf"}[n < 0]
	}
	const least, most = -4, 16 // exponents of numbers that are written without one
	long := strconv.FormatFloat(n, 'e', -1, 64)
	_, exp, _ := strings.Cut(long, "e")
	if e, err := strconv.Atoi(exp); err != nil || e < least || e >= most {
		return long
	}
	short := strconv.FormatFloat(n, 'f', -1, 64)
	if !strings.Contains(short, ".") {
		short += ".0"
	}
	return short
}

// cutRunes returns at most the first n characters of s.
func cutRunes(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}

// asked returns the URL under which a record is stored: its own URL with methodQuery's addition. If
// that makes the URL too long, the addition is cut.
func (r *warcRecord) asked() (string, error) {
	if r.query == "" {
		return bareURL(r.url())
	}
	target, _, _ := strings.Cut(r.url(), "#")
	if strings.Contains(target, "?") {
		target += "&"
	} else {
		target += "?"
	}
	length := utf8.RuneCountInString(r.query)
	with := func(n int) (string, error) {
		url, err := bareURL(target + cutRunes(r.query, n))
		if err == nil {
			_, err = naming.HostOf(url) // checks the URL's length
		}
		return url, err
	}
	url, err := with(length)
	if err == nil {
		return url, nil
	}
	method, _, _ := strings.Cut(r.query, "&")
	fits := sort.Search(length, func(n int) bool { _, err := with(n + 1); return err != nil })
	if fits < len(method) {
		return "", err
	}
	return with(fits)
}

// bareURL returns a URL in the form that segments have.
func bareURL(text string) (string, error) {
	url, err := weburl.New(text, nil)
	if err != nil {
		return "", err
	}
	return url.Bare(), nil
}

// concurrent reports whether a request and another record are of one exchange with a server: one of
// them refers to the other, and both have the same URL.
func concurrent(request, other *warcRecord) bool {
	refers := func(a, b *warcRecord) bool {
		for _, id := range a.fields["Warc-Concurrent-To"] {
			if id == b.get("WARC-Record-ID") {
				return id != ""
			}
		}
		return false
	}
	return request.url() == other.url() && (refers(request, other) || refers(other, request))
}

// exchange joins an answer with its request: the record before or after the answer.
type exchange struct {
	request *warcRecord // the previous record, if it was a request
	answer  *warcRecord // an answer that waits for its request; nil: none
}

// take converts a record whose block has been read. An answer without a request before it waits for
// the next record.
func (c *conversion) take(in *input, r *warcRecord) error {
	e := &c.exchange
	request := e.request
	e.request = nil
	switch strings.ToLower(r.get("WARC-Type")) {
	case "request":
		query, err := methodQuery(r.block)
		if err != nil {
			return err
		}
		r.query, e.request = query, r
		if e.answer != nil && concurrent(r, e.answer) {
			e.answer.query = query
		}
	case "response", "revisit":
		if request == nil || !concurrent(request, r) {
			if err := c.answer(in); err != nil {
				return err
			}
			e.answer = r
			c.block, c.spare = c.spare, c.block
			return nil
		}
		r.query = request.query
	}
	if err := c.answer(in); err != nil {
		return err
	}
	return in.refused(c.record(r), r.at, r.url())
}

// answer converts the waiting answer, if there is one.
func (c *conversion) answer(in *input) error {
	r := c.exchange.answer
	if r == nil {
		return nil
	}
	c.exchange.answer = nil
	return in.refused(c.record(r), r.at, r.url())
}
