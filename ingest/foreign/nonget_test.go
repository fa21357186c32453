package foreign

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"sheaf/archive/naming"
	"sheaf/internal/testkit"
)

// asking returns a request with a body.
func asking(method, fields, body string) string {
	return fmt.Sprintf("%s /p HTTP/1.1\r\nHost: a.example.jp\r\n%sContent-Length: %d\r\n\r\n%s", method, fields, len(body), body)
}

// The keys of answers to requests other than GET are those that pywb and cdxj-indexer write.
func TestKeysOfRequests(t *testing.T) {
	t.Parallel()
	const form, jsonBody = "Content-Type: application/x-www-form-urlencoded\r\n", "Content-Type: application/json; charset=utf-8\r\n"
	multi := "Content-Type: multipart/form-data; boundary=XX\r\n"
	parts := "--XX\r\nContent-Disposition: form-data; name=\"ts\"\r\n\r\n12 3\r\n--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"blob\"\r\n\r\n\x9c\r\n--XX--\r\n"
	for name, c := range map[string]struct{ request, key string }{
		"GET":                   {"GET /p HTTP/1.1\r\n\r\n", ""},
		"no HTTP":               {"dns query", ""},
		"no method":             {"\r\n\r\n", ""},
		"OPTIONS":               {"OPTIONS /p HTTP/1.1\r\n\r\n", "__wb_method=options"},
		"no body":               {asking("POST", form, ""), "__wb_method=post"},
		"no length":             {"POST /p HTTP/1.1\r\n" + form + "\r\nfoo=bar", "__wb_method=post&foo=bar"},
		"no such length":        {"POST /p HTTP/1.1\r\n" + form + "Content-Length: abc\r\n\r\nfoo=bar", "__wb_method=post"},
		"a shorter length":      {"POST /p HTTP/1.1\r\n" + form + "Content-Length: 6\r\n\r\nfoo=bar", "__wb_method=post&foo=ba"},
		"form":                  {asking("POST", form, "Foo=Bar&dir=%2Fbaz+x"), "__wb_method=post&dir=/baz%20x&foo=bar"},
		"form, sorted":          {asking("PUT", form, "b=2&a=1&1=0"), "1=0&__wb_method=put&a=1&b=2"},
		"form, Japanese":        {asking("POST", form, "q=%E6%97%A5本"), "__wb_method=post&q=%e6%97%a5%e6%9c%ac"},
		"form, Shift_JIS":       {asking("POST", form, "q=%93%FA%96%7B"), "__wb_method=post&q=%93%fa%96{"},
		"form, a fragment":      {asking("POST", form, "q=%23fff&r=1"), "__wb_method=post&q="},
		"form, line ends":       {asking("POST", form, "q=a%0D%0Ab"), "__wb_method=post&q=ab"},
		"form, binary":          {asking("POST", form, "\x816l`L\xa04P\x0e\xe0r\x02\xb5\x89\x19\x00fP\xdb\x0e\xb0\x02,"), "__wb_method=post&__wb_post_data=gtzsyeygnfao4hictykzagzq2w6waiw="},
		"JSON":                  {asking("POST", jsonBody, `{"a": "b", "c": {"a": 2}, "d": "e"}`), "__wb_method=post&a.2_=2&a=b&d=e"},
		"JSON, a list":          {asking("POST", jsonBody, `[{"a": "b", "c": {"a": 2}}, {"d": "e"}, "ignored", false, null, 0]`), "__wb_method=post&a.2_=2&a=b&d=e"},
		"JSON, lines":           {asking("POST", jsonBody, "{\"a\": \"b\"}\n{\"c\": {\"a\": 2}, \"d\": \"e\"}"), "__wb_method=post&a.2_=2&a=b&d=e"},
		"JSON, values":          {asking("POST", jsonBody, `{"v": [true, false, null], "id": 44.0, "s": "a+b&c= d", "n": [1e16, 1e-5, 0.5, 12345678901234567890, 1e5]}`), "__wb_method=post&c=+d&id=44.0&n.2_=1e-05&n.3_=0.5&n.4_=12345678901234567890&n.5_=100000.0&n=1e+16&s=a+b&v.2_=false&v.3_=none&v=true"},
		"JSON, damaged":         {asking("POST", jsonBody, `{"a": "b"`), "__wb_method=post"},
		"JSON and more":         {asking("POST", jsonBody, `{"a": "b"} {"c": 1}`), "__wb_method=post"},
		"text":                  {asking("POST", "Content-Type: text/plain\r\n", "foo=bar&dir=%2Fbaz"), "__wb_method=post&__wb_post_data=zm9vpwjhcizkaxi9jtjgymf6"},
		"text that is JSON":     {asking("POST", "Content-Type: text/plain\r\n", `{"a": 1}`), "__wb_method=post&a=1"},
		"parts":                 {asking("POST", multi, parts), "__wb_method=post&file=%9c&ts=12+3"},
		"parts, no boundary":    {asking("POST", "Content-Type: multipart/form-data\r\n", "foo=bar&dir=%2Fbaz"), "__wb_method=post&__wb_post_data=zm9vpwjhcizkaxi9jtjgymf6"},
		"parts, cut":            {asking("POST", multi, "--XX\r\nfoo"), "__wb_method=post&__wb_post_data=ls1ywa0kzm9v"},
		"no type":               {asking("POST", "", "foo=bar&dir=%2Fbaz"), "__wb_method=post&__wb_post_data=zm9vpwjhcizkaxi9jtjgymf6"},
		"in chunks":             {"POST /p HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n4\r\ndata\r\n0\r\n\r\n", "__wb_method=post&__wb_post_data=c29tzwrhdge="},
		"in chunks, cut":        {"POST /p HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n4\r\nda", "__wb_method=post&__wb_post_data=c29tzwrh"},
		"more than a key holds": {asking("POST", "", strings.Repeat("x", 9000)), "__wb_method=post&__wb_post_data=" + strings.ToLower(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 9000))))[:naming.MaxURL-len("http://a.example.jp/p?__wb_method=POST&__wb_post_data=")]},
	} {
		key := "jp,example,a)/p"
		if c.key != "" {
			key += "?" + c.key
		}
		page := rec("1.1", "response", "http://a.example.jp/p", answer, "HTTP/1.1 200 OK\r\n\r\n<p>")
		got, err := convert(t, page+requestFor(page, c.request), nil)
		testkit.Must(t, err)
		if got.cells[0].URLKey != key {
			t.Errorf("%s: key %s, want %s", name, got.cells[0].URLKey, key)
		}
	}
}

// requestFor returns a request's record that refers to the record of its answer.
func requestFor(record, request string) string {
	_, rest, _ := strings.Cut(record, "WARC-Record-ID: ")
	id, _, _ := strings.Cut(rest, "\r\n")
	_, rest, _ = strings.Cut(record, "WARC-Target-URI: ")
	target, _, _ := strings.Cut(rest, "\r\n")
	return rec("1.1", "request", target, "Content-Type: application/http; msgtype=request\r\nWARC-Concurrent-To: "+id+"\r\n", request)
}

// Each answer is a page of its own, whether its request comes before or after it. The page that is
// got with GET is the one of the URL.
func TestAnswersOfOneURL(t *testing.T) {
	t.Parallel()
	const form = "Content-Type: application/x-www-form-urlencoded\r\n"
	page := func(body string) string {
		return rec("1.1", "response", "http://a.example.jp/p?x=1", answer+"WARC-Payload-Digest: sha1:"+body+"\r\n", "HTTP/1.1 200 OK\r\n\r\n"+body)
	}
	revisit := rec("1.1", "revisit", "http://a.example.jp/p?x=1", answer+"WARC-Payload-Digest: sha1:two\r\nWARC-Refers-To-Target-URI: http://a.example.jp/p?x=1\r\n", "HTTP/1.1 200 OK\r\n\r\n")
	revisit = strings.Replace(revisit, "Record-ID: <urn:uuid:0", "Record-ID: <urn:uuid:1", 1) // rec numbers by the URL
	post := func(page, value string) string { return requestFor(page, asking("POST", form, "v="+value)) }
	file := []string{
		page("one"), post(page("one"), "1"),
		post(page("two"), "2"), page("two"),
		page("got"), requestFor(page("got"), "GET /p?x=1 HTTP/1.1\r\n\r\n"),
		revisit, post(revisit, "2"),
		numbered(1)[0],
	}
	for name, data := range map[string]string{"strict": strings.Join(file, ""), "gzip": gz(file...)} {
		for _, lenient := range []bool{false, true} {
			got, err := convertAs(t, data, Options{Lenient: lenient})
			testkit.Must(t, err)
			var all []string
			for _, c := range got.cells {
				_, key, _ := strings.Cut(c.URLKey, "?")
				all = append(all, c.Kind.String()+" "+key)
			}
			want := []string{"page __wb_method=post&v=1&x=1", "page __wb_method=post&v=2&x=1", "page x=1", "revisit __wb_method=post&v=2&x=1", "page "}
			if !slices.Equal(all, want) || got.Others != 4 {
				t.Errorf("%s, lenient %v: %q and %d others, want %q", name, lenient, all, got.Others, want)
			}
		}
	}
}

// A request of another exchange says nothing of a page.
func TestRequestsOfOthers(t *testing.T) {
	t.Parallel()
	page := rec("1.1", "response", "http://a.example.jp/p", answer, "HTTP/1.1 200 OK\r\n\r\n<p>")
	post := requestFor(page, asking("POST", "", "x"))
	for name, data := range map[string]string{
		"another ID":      page + strings.Replace(post, "Concurrent-To: <urn:uuid:0", "Concurrent-To: <urn:uuid:1", 1),
		"no ID":           page + strings.Replace(post, "WARC-Concurrent-To", "X-Concurrent-To", 1),
		"another URL":     page + strings.Replace(post, "jp/p", "jp/other", 1),
		"not beside it":   post + crawl("1.1")[0] + page,
		"no response one": page + strings.Replace(post, "WARC-Type: request", "WARC-Type: metadata", 1),
	} {
		got, err := convert(t, data, nil)
		testkit.Must(t, err)
		if got.cells[0].URL != "http://a.example.jp/p" {
			t.Errorf("%s: %s", name, got.cells[0].URL)
		}
	}
}

// FuzzMethodQuery: whatever a request is, its page has a URL that a record can have, and the key
// has the method.
func FuzzMethodQuery(f *testing.F) {
	for _, mediaType := range []string{"application/x-www-form-urlencoded", "application/json", "text/plain", "multipart/form-data; boundary=XX", ""} {
		for _, body := range []string{"a=1&b=%20+", `{"a": [1, 2.0, {"a": "x"}]}`, "--XX\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--XX--\r\n", "\x00\xff"} {
			f.Add(asking("POST", "Content-Type: "+mediaType+"\r\n", body))
		}
	}
	f.Fuzz(func(t *testing.T, request string) {
		var b block
		testkit.Must(t, b.fill(strings.NewReader(request)))
		query, err := methodQuery(&b)
		if err != nil {
			t.Fatal(err)
		}
		if query == "" {
			return
		}
		r := warcRecord{query: query, fields: map[string][]string{"Warc-Target-Uri": {"http://a.example.jp/p"}}}
		found, err := r.asked()
		if err != nil {
			return // a method that is as long as a URL
		}
		if _, err := naming.HostOf(found); err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(found)
		if err != nil || !strings.HasPrefix(u.RawQuery, methodParam) || !utf8.ValidString(found) {
			t.Fatalf("%q: %v", found, err)
		}
	})
}
