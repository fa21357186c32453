package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// run is a benchmark of the project, with the table's lines for its figures.
type run struct {
	name, what string
	pkg, bench string
	times      string   // -benchtime
	env        []string // sizes
	lines      []line
}

// line is a line of the table.
type line struct {
	work, peer string
	aim        string // "–": no aim was set
	value      func(figures) string
}

// unknown stands for a figure that was not measured, because a program is missing.
const unknown = "not measured"

// share returns the ratio of Sheaf's figure to another program's figure, round by round.
func share(ours, theirs string) func(figures) string {
	return func(f figures) string {
		var ratios []float64
		for i, a := range f[ours] {
			if i < len(f[theirs]) && f[theirs][i] != 0 {
				ratios = append(ratios, a/f[theirs][i])
			}
		}
		if len(ratios) == 0 {
			return unknown
		}
		return spread("%.2f ×", ratios)
	}
}

// each returns figures in a format, with commas between them. It leaves out figures that were not
// measured.
func each(format string, names ...string) func(figures) string {
	return func(f figures) string {
		var values []string
		for _, name := range names {
			v, ok := f.median(name)
			switch {
			case !ok:
			case math.IsInf(v, 0) || math.IsNaN(v): // the other program has used less CPU than can be measured
				values = append(values, "–")
			default:
				values = append(values, spread(format, f[name]))
			}
		}
		if len(values) == 0 {
			return unknown
		}
		return strings.Join(values, ", ")
	}
}

const (
	ratio    = "%.2f ×"
	robot    = "Crawl/level=6 "
	cpuPage  = "cpu-s/1000pages"
	pageRate = "pages/s"
)

var runs = []run{
	{
		"crawl", "10,000 pages of 100 hosts, without an interval: the robot, wget2, wget, colly, Scrapy",
		"./robotd", "Crawl|Peers", "1x", []string{"SHEAF_BENCH_PAGES=100"},
		[]line{
			{"crawl 10,000 pages: CPU a page", "wget2, which keeps no archive", "≤ 2.2 ×", share(robot+cpuPage, "Peers/wget2 "+cpuPage)},
			{"the same", "`wget --warc-file`, one page at a time", "≤ 0.8 ×", share(robot+cpuPage, "Peers/wget-warc "+cpuPage)},
			{"the same: pages/s", "wget2", "≥ 0.8 ×", share(robot+pageRate, "Peers/wget2 "+pageRate)},
			{"the same: CPU a page", "colly, which keeps nothing", "≤ 0.33 ×", share(robot+cpuPage, "Peers/colly "+cpuPage)},
			{"the same", "Scrapy, which keeps nothing", "–", share(robot+cpuPage, "Peers/scrapy "+cpuPage)},
			{"the same: pages/s of the robot", "–", "–", each("%.0f", robot+pageRate)},
		},
	},
	{
		"ftp", "FTP downloads over 1, 8 and 64 connections, and a mirror by lftp: sheaf, vsftpd",
		"./serve/ftpd", "AgainstVsftpd", "1x", []string{"SHEAF_BENCH_ROUNDS=2"},
		[]line{
			{"FTP RETR, 1, 8 and 64 connections, a stored file: CPU", "vsftpd", "≤ 1.3 ×", vsftpd("stored-%d-cpu-ratio")},
			{"the same, a file that is put together", "vsftpd", "≤ 1.3 ×", vsftpd("computed-%d-cpu-ratio")},
			{"the same, a stored file: MB/s", "vsftpd", "≥ 1.0 ×", vsftpd("stored-%d-ratio")},
			{"the same, a file that is put together", "vsftpd", "≥ 1.0 ×", vsftpd("computed-%d-ratio")},
			{"FTPS, 1, 8 and 64 connections, a stored file: MB/s", "vsftpd with TLS", "≥ 0.9 ×", vsftpd("tls-%d-ratio")},
			{"the same: CPU", "vsftpd with TLS", "≤ 1.1 ×", vsftpd("tls-%d-cpu-ratio")},
			{"lftp mirror of 2,000 small files: CPU", "vsftpd", "≤ 1.5 ×", each(ratio, "AgainstVsftpd mirror-cpu-ratio")},
			{"the same: files/s", "vsftpd", "–", each(ratio, "AgainstVsftpd mirror-ratio")},
		},
	},
	{
		"http", "HTTP downloads over 1, 8 and 64 connections, and one page by its URL: sheaf, nginx",
		"./serve/httpd", "AgainstNginx", "1x", nil,
		[]line{
			{"HTTP, 1, 8 and 64 connections, a stored file: MB/s", "nginx", "≥ 1.0 ×", nginx("stored-%d-ratio", 1, 8, 64)},
			{"the same, a file that is put together", "nginx", "≥ 1.0 ×", nginx("computed-%d-ratio", 1, 8, 64)},
			{"the same, a stored file: CPU", "nginx", "–", nginx("stored-%d-cpu-ratio", 1, 8, 64)},
			{"HTTPS, 1, 8 and 64 connections, a stored file: MB/s", "nginx with TLS", "≥ 0.9 ×", nginx("tls-%d-ratio", 1, 8, 64)},
			{"the same: CPU", "nginx with TLS", "≤ 1.1 ×", nginx("tls-%d-cpu-ratio", 1, 8, 64)},
			{"a page of 20 KB by its URL (`id_`), 1, 8 and 64 connections: requests/s", "nginx with the unpacked file", "≥ 0.3 ×", nginx("page-%d-ratio", 1, 8, 64)},
			{"the same, in gzip as it is stored", "nginx with the unpacked file", "≥ 0.3 ×", nginx("gzip-%d-ratio", 1, 8, 64)},
			{"the same, inflated and in gzip: the slowest in 100", "nginx with the unpacked file", "≤ 3 ×", each(ratio, slices.Concat(names("AgainstNginx ", "page-%d-p99-ratio", 1, 8, 64), names("AgainstNginx ", "gzip-%d-p99-ratio", 1, 8, 64))...)},
			{"the same: µs of CPU a page, inflated and in gzip", "–", "≤ 250, ≤ 150", each("%.0f", "AgainstNginx page-8-cpu-µs", "AgainstNginx gzip-8-cpu-µs")},
		},
	},
	{
		"s3", "HTTP downloads of a host of 30 segments from a store over S3 (versitygw): sheaf, rclone, nginx; nginx from files",
		"./serve/httpd", "ThirtySegments", "1x", nil,
		[]line{
			{"download from S3 (versitygw), 1 and 8 connections: CPU s/GiB", "–", "≤ 0.7", each("%.2f", "ThirtySegments all-1-S3-cpu-s/GiB", "ThirtySegments all-8-S3-cpu-s/GiB")},
			{"the same: CPU", "`rclone serve http` of the same file", "–", each(ratio, "ThirtySegments all-1-S3-cpu-ratio", "ThirtySegments all-8-S3-cpu-ratio")},
			{"the same: CPU", "nginx, which passes requests on to versitygw", "≤ 1.5 ×", each(ratio, "ThirtySegments all-1-S3-nginx-cpu-ratio", "ThirtySegments all-8-S3-nginx-cpu-ratio")},
			{"`all` and `current` of 30 segments, 8 connections: MB/s", "nginx with the same files", "≥ 0.95 ×", each(ratio, "ThirtySegments all-8-ratio", "ThirtySegments current-8-ratio")},
		},
	},
	{
		"cdx", "one page by its URL among 300,000 records, with the index",
		"./serve/httpd", "CDX/.*/index", "2000x", []string{"SHEAF_BENCH_RECORDS=300000"},
		[]line{
			{"`/v1/cdx`, one URL of 30 captures among 300,000 records: requests/s on all cores", "–", "≥ 3,000 a core", each("%.0f", "CDX/parallel/index requests/s")},
			{"the same, empty caches: p50, p99 in µs", "–", "–", each("%.0f", "CDX/cold/index p50-µs", "CDX/cold/index p99-µs")},
		},
	},
	{
		"split", "a batch of 1 GB, verified and split by hosts: sheaf, tar",
		"./ingest", "Split$", "1x", []string{"SHEAF_BENCH_BYTES=1000000000"},
		[]line{
			{"split a batch of 1 GB, all verified: time", "`tar xzf` and `tar czf` for each host", "≤ 0.125 ×", share("Split s-split", "Split s-tar")},
			{"the same", "`cp`", "–", share("Split s-split", "Split s-cp")},
			{"the same: peak memory in MB", "–", "–", each("%.0f", "Split MB-peak-RSS")},
		},
	},
	{
		"tiny", "a batch of 20,000 tiny hosts, split",
		"./ingest", "SplitSmallHosts/packs", "1x", nil,
		[]line{{"split 20,000 tiny hosts into packs: seconds", "–", "≤ 5, with publication", each("%.1f", "SplitSmallHosts/packs s-split")}},
	},
	{
		"overhead", "the size of stored records: sheaf, plain .warc.gz",
		"./test/format", "Overhead", "1x", nil,
		[]line{
			{"bytes of a record above the same in .warc.gz", ".warc.gz, one member each", "≤ 300", each("%.0f", "Overhead over-B/record")},
			{"size of the demo's real pages", "the same", "–", each(ratio, "Overhead segment/plain")},
		},
	},
}

func vsftpd(format string) func(figures) string {
	return each(ratio, names("AgainstVsftpd ", format, 1, 8, 64)...)
}

func nginx(format string, connections ...int) func(figures) string {
	return each(ratio, names("AgainstNginx ", format, connections...)...)
}

// names returns the names of a figure for some numbers of connections.
func names(before, format string, connections ...int) (all []string) {
	for _, n := range connections {
		all = append(all, before+fmt.Sprintf(format, n))
	}
	return all
}
