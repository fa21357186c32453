package main

import "fmt"

// by returns a growth's env. For a size, it sets each variable to the size times the variable's
// number.
func by(each map[string]float64) func(int) []string {
	return func(n int) (env []string) {
		for name, share := range each {
			env = append(env, fmt.Sprintf("%s=%.0f", name, share*float64(n)))
		}
		return env
	}
}

const ms = "%.2f ms"

// cold is the reason why a manager's reads cost more than ten times as much at ten times the size.
const cold = "the database is larger than its connections' caches of 16 MiB"

// levels is the reason why merging and reading a catalog cost a little more with more editions.
const levels = "a row is merged once, and read once more, for each level of runs; eight runs of one make one of the next"

var growths = []growth{
	{
		"index", "the index of URLs", "./archive/urlindex", "Index$", "records, of 30 days", []int{100_000, 1_000_000, 10_000_000},
		by(map[string]float64{"SHEAF_BENCH_RECORDS": 1}),
		[]curve{
			{"to build: CPU a record", "Index build-cpu-µs/row", "%.1f µs", 0, ""},
			{"to merge: CPU a record", "Index merge-cpu-µs/row", "%.1f µs", 0, ""},
			{"stored for each record", "Index cdx-B/row", "%.1f B", 0, ""},
			{"one URL's 30 records, nothing in memory: p99", "Index cold-p99-ms", ms, 0, ""},
			{"the same: CPU", "Index cold-cpu-ms/look-up", ms, 0, ""},
			{"the same, in memory: CPU", "Index warm-cpu-ms/look-up", ms, 0, ""},
		},
	},
	{
		"catalog", "the catalog, of 30 editions in each of which every host changed", "./archive/catalog", "CatalogAtSize", "hosts",
		[]int{1_000, 10_000, 100_000},
		func(n int) []string {
			return []string{fmt.Sprint("SHEAF_BENCH_HOSTS=", n), "SHEAF_BENCH_EDITIONS=30", "SHEAF_BENCH_LOOKUPS=10000"}
		},
		[]curve{
			{"to publish all 30", "CatalogAtSize publish-s", "%.2f s", 1, ""},
			{"to merge them", "CatalogAtSize merge-s", "%.2f s", 1, ""},
			{"to start", "CatalogAtSize start-s", "%.4f s", 1, ""},
			{"memory after the start", "CatalogAtSize start-rss-MiB", "%.0f MiB", 1, ""},
			{"to look a host up, nothing in memory: CPU", "CatalogAtSize lookup-cold-p50-cpu-ms", ms, 0, ""},
			{"the same, in memory", "CatalogAtSize lookup-p50-cpu-ms", "%.3f ms", 0, ""},
			{"to publish a further 1,000 hosts", "CatalogAtSize publish-1000-p50-ms", "%.0f ms", 0, ""},
		},
	},
	{
		"year", "the catalog, of 10,000 hosts that changed in every edition", "./archive/catalog", "CatalogAtSize", "editions",
		[]int{4, 36, 365},
		func(n int) []string {
			return []string{"SHEAF_BENCH_HOSTS=10000", fmt.Sprint("SHEAF_BENCH_EDITIONS=", n), "SHEAF_BENCH_LOOKUPS=10000"}
		},
		[]curve{
			{"to publish all", "CatalogAtSize publish-s", "%.2f s", 1, ""},
			{"to merge them", "CatalogAtSize merge-s", "%.2f s", 1, levels},
			{"to start", "CatalogAtSize start-s", "%.4f s", 1, ""},
			{"memory after the start", "CatalogAtSize start-rss-MiB", "%.0f MiB", 1, ""},
			{"to look a host up with all its editions, nothing in memory: CPU", "CatalogAtSize lookup-cold-p50-cpu-ms", ms, 1, ""},
			{"the same, in memory", "CatalogAtSize lookup-p50-cpu-ms", "%.3f ms", 1, ""},
			{"100 entries of the directory of jp: CPU", "CatalogAtSize page100-jp-p50-cpu-ms", ms, 0, levels},
			{"to publish a further 1,000 hosts", "CatalogAtSize publish-1000-p50-ms", "%.0f ms", 0, ""},
		},
	},
	{
		"manager", "the manager, with a robot for each 1,000 hosts", "./manager", "AtSize", "hosts", []int{10_000, 100_000, 1_000_000},
		by(map[string]float64{"SHEAF_BENCH_HOSTS": 1, "SHEAF_BENCH_ROBOTS": 0.001}),
		[]curve{
			{"the plan of the day", "AtSize s/plan", "%.2f s", 1, cold},
			{"the same: memory", "AtSize MB-peak/plan", "%.0f MB", 1, ""},
			{"a robot's list of 1,000 hosts, 4 at once: p50", "AtSize ms-p50/list-4-clients", ms, 0, cold},
			{"a heartbeat with 1,000 hosts", "AtSize s/heartbeat", "%.5f s", 0, cold},
			{"`sheaf robot ls`", "AtSize s/robot-ls", "%.3f s", 1, ""},
			{"a host is found", "AtSize s/one-found", "%.4f s", 0, cold},
			{"to look a host up", "AtSize µs/look-up-of-host", "%.0f µs", 0, cold},
		},
	},
	{
		"frontier", "a robot's frontier", "./robotd/frontier", "Frontier$", "known URLs, on 1,000 hosts", []int{100_000, 1_000_000, 10_000_000},
		func(n int) []string { return []string{fmt.Sprint("SHEAF_BENCH_URLS=", n), "SHEAF_BENCH_HOSTS=1000"} },
		[]curve{
			{"to add one", "Frontier ns/push", "%.0f ns", 0, ""},
			{"to find that it is known", "Frontier ns/known", "%.0f ns", 0, ""},
			{"to take the next", "Frontier ns/pop", "%.0f ns", 0, ""},
			{"memory of each", "Frontier B-RAM/URL", "%.1f B", 0, ""},
			{"disk of each", "Frontier B-disk/URL", "%.0f B", 0, ""},
			{"to start", "Frontier s/start", "%.2f s", 1, ""},
		},
	},
	{
		"split", "splitting a batch, all verified", "./ingest", "Split$", "bytes before compression", []int{10_000_000, 100_000_000, 1_000_000_000},
		by(map[string]float64{"SHEAF_BENCH_BYTES": 1}),
		[]curve{
			{"all of it", "Split s-split", "%.2f s", 1, ""},
			{"memory", "Split MB-peak-RSS", "%.0f MB", 0, ""},
			{"stored bytes", "Split MB-batch", "%.1f MB", 1, ""},
		},
	},
	{
		"tables", "a table of records in Parquet", "./cmd/sheaf/service", "TableAtSize", "hosts of 10 records", []int{10_000, 100_000, 1_000_000},
		by(map[string]float64{"SHEAF_BENCH_HOSTS": 1}),
		[]curve{
			{"CPU a record", "TableAtSize cpu-µs/record", "%.1f µs", 0, ""},
			{"bytes a record", "TableAtSize B/record", "%.1f B", 0, ""},
		},
	},
	{
		"volumes", "a day's volumes of a domain", "./serve", "VolumesAtSize", "hosts", []int{20_000, 200_000, 2_000_000},
		by(map[string]float64{"SHEAF_BENCH_HOSTS": 1}),
		[]curve{
			{"to list them for the first time", "VolumesAtSize s/list", "%.2f s", 1, ""},
			{"to open one, nothing in memory", "VolumesAtSize cold-s/open", "%.3f s", 1, ""},
			{"to open one", "VolumesAtSize s/open", "%.4f s", 0, ""},
		},
	},
	{
		"days", "what a day changed, of hosts with ten pages of 1 kB, of which three changed", "./serve", "DayAtSize", "hosts", []int{100, 1_000, 10_000},
		by(map[string]float64{"SHEAF_BENCH_HOSTS": 1}),
		[]curve{
			{"from the publication to both lists", "DayAtSize s/changes", "%.2f s", 1, ""},
			{"`changes.jsonl.gz`: bytes a line", "DayAtSize B/line", "%.1f B", 0, ""},
			{"`changes.parquet`: bytes a row", "DayAtSize B/row", "%.1f B", 0, ""},
			{"the day's tar: bytes a changed page", "DayAtSize B/changed", "%.1f B", 0, ""},
		},
	},
	{
		"crawl", "a crawl of 100 hosts without an interval", "./robotd", "Crawl/level=6", "pages", []int{100, 1_000, 10_000},
		func(n int) []string { return []string{fmt.Sprint("SHEAF_BENCH_PAGES=", n/100)} },
		[]curve{
			{"CPU of 1,000 pages", "Crawl/level=6 cpu-s/1000pages", "%.3f s", 0, ""},
			{"pages a second", "Crawl/level=6 pages/s", "%.0f", 1, ""},
		},
	},
}
