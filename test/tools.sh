#!/usr/bin/env bash
# Fetches what tests use beside Go and this checkout: Debian's programs, Go modules, Go programs and
# packages of npm. Tests themselves fetch nothing: they skip where one of these is missing. What is
# here already is not fetched again; each fetch has a limit. All are tried, and the status is 1 if
# one has failed. Only root can install Debian's programs; others are told which are missing.
set -uo pipefail
cd "$(dirname "$0")/.."
# A checkout may belong to another user, whose repository git does not open for go.
export GOFLAGS="${GOFLAGS:-} -buildvcs=false" CGO_ENABLED=0 DEBIAN_FRONTEND=noninteractive

failed=0
# fetch SECONDS WHAT COMMAND... runs a command that uses the network.
fetch() {
  timeout --kill-after=10 "$1" "${@:3}" </dev/null && return
  echo "test/tools.sh: could not fetch $2" >&2
  failed=1
  return 1
}

have() { command -v "$1" >/dev/null || compgen -G "/usr/lib/postgresql/*/bin/$1" >/dev/null; }
missing=()
while read -r tool package; do
  have "$tool" || missing+=("$package")
done < <(grep -v '^#' internal/testkit/tools.txt)
/usr/bin/python3 -c 'import aiosmtpd' 2>/dev/null || missing+=(python3-aiosmtpd)
if [ ${#missing[@]} -gt 0 ] && [ "$(id -u)" = 0 ]; then
  fetch 300 "Debian's lists" apt-get update -qq
  fetch 900 "${missing[*]}" apt-get install -y -qq "${missing[@]}"
elif [ ${#missing[@]} -gt 0 ]; then
  echo "test/tools.sh: as root: apt-get install ${missing[*]}" >&2
  failed=1
fi

for module in . test/oidc test/acme test/botauth test/manifests test/bench/colly deploy/packages; do
  fetch 300 "the Go modules of $module" go -C "$module" mod download
done
PATH="$PATH:$(go env GOPATH)/bin"
have versitygw || fetch 600 versitygw go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
# AGPL, so never in go.mod.
have minio || fetch 1500 minio go install github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c

# Each folder of test/npm has a package.json that names packages of npm's registry with their
# versions. They go to a folder of the same name, which testkit.NPM finds by the files copied to it.
npm=${XDG_CACHE_HOME:-$HOME/.cache}/sheaf-test/npm
# packages FOLDER NAME fetches what the package.json in a folder names.
packages() {
  cd "$1" || return
  if [ "$2" = replaywebpage ]; then # under the AGPL; a browser runs two of its files, and nothing that it depends on
    npm pack --loglevel=error "$2@$(node -p "require('./package.json').dependencies.$2")" &&
      mkdir -p "node_modules/$2" && tar -xzf "$2"-*.tgz --strip-components=1 -C "node_modules/$2" && rm "$2"-*.tgz
  else # not npm ci, which wants the packages of all platforms in the lock file
    npm install --no-save --no-audit --no-fund --loglevel=error --ignore-scripts
  fi
}
export -f packages
# fetched tells whether the files of a folder have been copied to another one.
fetched() {
  for file in "$1"*; do cmp -s "$file" "$2/$(basename "$file")" || return; done
}
for folder in test/npm/*/; do
  name=$(basename "$folder")
  ! fetched "$folder" "$npm/$name" || continue
  have npm || { echo "test/tools.sh: needs npm for $name" >&2; failed=1; continue; }
  mkdir -p "$npm"
  half=$(mktemp -d "$npm/.$name-XXXXXX")
  cp "$folder"/* "$half"
  fetch 300 "npm's packages of $folder" bash -c 'packages "$@"' packages "$half" "$name" &&
    rm -rf "${npm:?}/$name" && mv "$half" "$npm/$name"
  rm -rf "$half"
done
exit "$failed"
