#!/usr/bin/env bash
# Crawls one synthetic web with the robot and with its peers, one after another on this machine, and
# prints a table: pages a second, processor seconds for 1,000 pages, the most memory (MB), and how often
# each page was fetched. What is not installed is named and left out.
#
#   test/bench/crawl.sh [pages [rounds]]     pages of each of 100 hosts, default 30; rounds, default 1
#
# With few pages the start and the end of a program count for more; with 200 Scrapy alone takes some five
# minutes. wget2 and python3-scrapy are Debian packages; colly comes as a module. The web is the shared
# folder's, beside the checkout.
set -euo pipefail
cd "$(dirname "$0")/../.."
export SHEAF_BENCH_PAGES=${1:-30}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
go test ./robotd -run - -bench 'Crawl|Peers' -benchtime "${2:-1}x" -timeout 120m -v 2>&1 | tee "$out" >&2
awk '
  function column(unit,  i) { for (i = 3; i <= NF; i++) if ($i == unit) return $(i-1); return "-" }
  BEGIN { row = "%-16s %10s %12s %8s %14s\n"; printf row, "", "pages/s", "cpu-s/1000", "MB", "fetches/page" }
  /^Benchmark(Crawl|Peers)\/.*pages\/s/ {
    name = $1; sub(/^Benchmark/, "", name); sub(/-[0-9]+$/, "", name)
    sub(/^Peers\//, "", name); sub(/^Crawl\/level=/, "robotd, level ", name)
    printf row, name, column("pages/s"), column("cpu-s/1000pages"), column("MB"), column("fetches/page")
  }
  /^ *bench_test.go.*(needs|does not build)/ { sub(/^ *[^ ]* /, ""); print "left out: " $0 }
' "$out"
