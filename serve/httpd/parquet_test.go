package httpd_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/serve/records"
)

// parquetReaders returns a function that runs one of the scripts in testdata/parquet, which read
// Parquet files, and decodes its answer.
func parquetReaders(t *testing.T) func(script, in string, answer any, args ...string) {
	t.Helper()
	node, dir := testkit.Tool(t, "node"), testkit.NPM(t, "parquet")
	testkit.Must(t, os.CopyFS(dir, os.DirFS("testdata/parquet")))
	return func(script, in string, answer any, args ...string) {
		t.Helper()
		var stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), node, append([]string{filepath.Join(dir, script)}, args...)...)
		cmd.Dir, cmd.Stdin, cmd.Stderr = dir, strings.NewReader(in), &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, err, stderr.String())
		}
		testkit.Must(t, json.Unmarshal(out, answer))
	}
}

// DuckDB answers the questions of docs/queries.md, and others whose answer is known, from a table
// on disk. hyparquet reads a host from the service over ranges.
func TestOthersReadTheTable(t *testing.T) {
	testkit.Long(t)
	run := parquetReaders(t)
	c := newCrawl(t, 3, 300, records.Budget{})
	_, body := c.do(t, "GET", "all", "/v1/tables/records.parquet", "")
	path := filepath.Join(t.TempDir(), "records.parquet")
	testkit.Must(t, os.WriteFile(path, []byte(body), 0o600))

	var queries []string
	docs, err := os.ReadFile(filepath.Join(testkit.Root(t), "docs", "queries.md"))
	testkit.Must(t, err)
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllSubmatch(docs, -1) {
		for sql := range strings.SplitSeq(string(block[1]), ";") {
			if strings.TrimSpace(sql) != "" {
				queries = append(queries, sql)
			}
		}
	}
	if len(queries) < 3 {
		t.Fatalf("%d queries in docs/queries.md", len(queries))
	}
	queries = append(queries, `SELECT edition, count(*)::INT AS n, count(DISTINCT host)::INT AS hosts, count(refers_time)::INT AS refers,
		strftime(max(fetch_time AT TIME ZONE 'UTC'), '%Y%m%d%H') AS last FROM 'records.parquet' GROUP BY ALL ORDER BY edition`)
	for i := range queries {
		queries[i] = strings.ReplaceAll(queries[i], "'records.parquet'", "'"+path+"'")
	}
	in, err := json.Marshal(queries)
	testkit.Must(t, err)
	var answers [][]map[string]any
	run("duckdb.mjs", string(in), &answers)
	for i, rows := range answers {
		if len(rows) == 0 && !strings.Contains(queries[i], "waseda") {
			t.Errorf("no rows of\n%s", queries[i])
		}
	}
	last := answers[len(answers)-1]
	for _, row := range last {
		of := c.answer(question{account: "all", match: func(r told) bool { return r.edition == row["edition"] }})
		if row["n"] != float64(len(of)) || row["hosts"] != float64(len(crawled)) || row["refers"] == 0.0 || !strings.HasPrefix(row["last"].(string), row["edition"].(string)) {
			t.Errorf("%v, want %d records", row, len(of))
		}
	}
	if len(last) != 3 {
		t.Errorf("%d editions, want 3", len(last))
	}

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url, nil)
	testkit.Must(t, err)
	req.SetBasicAuth("all", "all")
	var read struct {
		Rows     []struct{ URL, Edition string }
		Requests int
		Bytes    int
		Size     int
	}
	run("hyparquet.mjs", "", &read, c.url+"/v1/tables/records.parquet", req.Header.Get("Authorization"), "a.example.jp")
	want := c.answer(question{account: "all", match: func(r told) bool { return r.host == "a.example.jp" }})
	if len(read.Rows) != len(want) || read.Size != len(body) || read.Requests == 0 {
		t.Errorf("%d rows in %d requests of a file of %d bytes, want %d rows and %d bytes", len(read.Rows), read.Requests, read.Size, len(want), len(body))
	}
	for _, row := range read.Rows {
		if !strings.HasPrefix(row.URL, "http://a.example.jp/") {
			t.Errorf("%+v", row)
		}
	}
	t.Logf("hyparquet: %d requests, %d of %d bytes", read.Requests, read.Bytes, read.Size)
}
