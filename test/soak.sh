#!/usr/bin/env bash
# soak.sh [MINUTES] runs the tests that search for faults nobody knows: the lines `soak` of
# test/long.txt, in their long forms, each with a new seed. Those that ran longest ago come first.
# It begins no test after MINUTES, 60 by default, and adds a line for each to test/soak.tsv: commit that,
# so that the next run goes on with the others. A fault that it finds becomes a deterministic test
# of the default suite.
set -euo pipefail
cd "$(dirname "$0")/.."
table=test/soak.tsv
end=$((SECONDS + ${1:-60} * 60))
logs=$(mktemp -d)
failed=0
while IFS=$'\t' read -r _ folder names set; do
  [ $SECONDS -lt $end ] || break
  seed=$((RANDOM << 15 | RANDOM))
  began=$SECONDS
  log=$logs/${folder//\//:}-${names//[^A-Za-z]/_}
  result=passed
  env SHEAF_TEST_FULL=1 SHEAF_TEST_SEED=$seed $set go test -count=1 -timeout 120m -v -run "^($names)\$" "./$folder" >"$log" 2>&1 || result=FAILED
  [ $result = passed ] || failed=1
  printf '%s\t%s\t%s\t%s\t%d\t%d\t%s\n' "$(date -u +%F)" "$folder" "$names" "$(git rev-parse --short HEAD)" "$seed" $((SECONDS - began)) "$result" |
    tee -a "$table"
  [ $result = passed ] && rm "$log" || echo "its log: $log"
done < <(awk -F'\t' -v OFS='\t' '
  FILENAME ~ /soak.tsv/ { last[$2 " " $3] = $1; next }
  { split($0, f, / +/) }
  f[1] == "soak" { print (f[2] " " f[3] in last) ? last[f[2] " " f[3]] : "0", f[2], f[3], f[4] }' "$table" test/long.txt | sort -s -k1,1)
exit $failed
