#!/bin/sh
# Before the files are removed. An upgrade, which dpkg and rpm tell by the argument, goes on running
# until the new program is there.
set -eu
case ${1:-} in upgrade | 1) exit 0 ;; esac
if [ -d /run/systemd/system ]; then
	systemctl stop '@NAME@@*.service' || :
	systemctl disable --now @NAME@.service || :
fi
