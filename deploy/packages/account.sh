#!/bin/sh
# After the files are unpacked: the user, and the directory that only it may write.
set -eu
if ! id @ACCOUNT@ >/dev/null 2>&1; then
	useradd --system --user-group --home-dir /var/lib/@NAME@ --no-create-home --shell /bin/false @ACCOUNT@
fi
mkdir -p /var/lib/@NAME@
chown @ACCOUNT@:@ACCOUNT@ /var/lib/@NAME@
chmod 750 /var/lib/@NAME@
