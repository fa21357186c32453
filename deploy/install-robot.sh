#!/bin/sh
# Installs, upgrades or removes a Sheaf robot. The command that `sheaf robot add NAME`
# prints runs this script; it may be run again at any time.
#
#   install-robot.sh --url URL --token TOKEN --release N:SHA256 [--contact WHO] [--proxy URL]
#   install-robot.sh --upgrade
#   install-robot.sh --remove [--purge] [--wait SECONDS]
#
# It needs root, a POSIX shell with the usual tools, curl or wget, and sha256sum or
# openssl. The robot then runs as a user of its own, sheaf-robot, which can write
# nowhere but below /var/lib/sheaf-robot. A proxy given by --proxy, or in HTTPS_PROXY,
# HTTP_PROXY, ALL_PROXY and NO_PROXY, is used and remembered.
set -eu
umask 022

account=sheaf-robot
lib=/usr/local/lib/sheaf-robot
etc=/etc/sheaf-robot
var=/var/lib/sheaf-robot
data=$var/data
control=/usr/local/bin/sheaf-robot
unit=/etc/systemd/system/sheaf-robot.service

say() { printf '%s\n' "sheaf-robot: $*"; }
die() {
	printf '%s\n' "sheaf-robot: $*" >&2
	exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }
systemd() { [ -d /run/systemd/system ] && has systemctl; }

# plain ends the script where a word could mean something to a shell or to YAML.
plain() { # WHAT WORD
	case $2 in
	*[!A-Za-z0-9.:/@_%~?=+,-]* | -*) die "$1 '$2' has characters that it cannot have" ;;
	esac
}

# use_proxy takes the proxy from --proxy, from what was remembered, or from the
# environment, under the names that curl, wget and the robot look at.
use_proxy() {
	if [ -n "$proxy" ]; then
		plain proxy "$proxy"
		HTTPS_PROXY=$proxy HTTP_PROXY=$proxy
	elif [ -f "$etc/environment" ]; then
		. "$etc/environment"
	fi
	for name in HTTPS_PROXY HTTP_PROXY ALL_PROXY NO_PROXY; do
		lower=$(echo "$name" | tr A-Z a-z)
		eval "value=\${$name:-\${$lower:-}}"
		if [ -n "$value" ]; then
			eval "$name=\$value $lower=\$value"
			export "$name" "$lower"
		fi
	done
}

fetch() { # URL FILE
	if has curl; then
		curl -fsSL --retry 3 --connect-timeout 30 -o "$2" "$1"
	elif has wget; then
		wget -q -O "$2" "$1"
	else
		die "needs curl or wget"
	fi || die "cannot fetch $1"
}

sha256() { # FILE
	if has sha256sum; then
		sha256sum "$1" | cut -d' ' -f1
	elif has openssl; then
		openssl dgst -sha256 -r "$1" | cut -d' ' -f1
	else
		die "needs sha256sum or openssl"
	fi
}

platform() {
	[ "$(uname -s)" = Linux ] || die "there is a robot for Linux only; this is $(uname -s)"
	case $(uname -m) in
	x86_64 | amd64) echo linux-amd64 ;;
	aarch64 | arm64) echo linux-arm64 ;;
	armv6* | armv7*) echo linux-arm ;;
	riscv64) echo linux-riscv64 ;;
	ppc64le) echo linux-ppc64le ;;
	s390x) echo linux-s390x ;;
	i?86) echo linux-386 ;;
	*) die "there is no robot for $(uname -m)" ;;
	esac
}

field() { # NAME FILE: a line of a release's text
	sed -n "s/^$1 //p" "$2"
}

# as_robot runs a command as the robot's user.
as_robot() {
	if setpriv --help 2>&1 | grep -q -e --reuid; then # busybox has one that cannot do it
		setpriv --reuid="$account" --regid="$account" --clear-groups -- "$@"
	else
		line=
		for word; do line="$line '$word'"; done
		su -s /bin/sh "$account" -c "exec $line"
	fi
}

# get_release fetches a release's text into $tmp; with a digest, it must be that text.
get_release() { # COUNTER|current SHA256|''
	fetch "$url/releases/$1/RELEASE" "$tmp/RELEASE"
	if [ -n "$2" ] && [ "$(sha256 "$tmp/RELEASE")" != "$2" ]; then
		die "the release at $url is not the one that the command names; ask for a new command"
	fi
}

# get_program fetches the program that the text in $tmp names for this machine.
get_program() {
	on=$(platform)
	sum=$(sed -n "s/^file $on [0-9]* //p" "$tmp/RELEASE")
	[ -n "$sum" ] || die "release $(field counter "$tmp/RELEASE") has no program for $on"
	fetch "$url/releases/$(field counter "$tmp/RELEASE")/robotd-$on" "$tmp/robotd"
	[ "$(sha256 "$tmp/robotd")" = "$sum" ] || die "the program was damaged on its way: its SHA-256 is not $sum"
	chmod 755 "$tmp/robotd"
	"$tmp/robotd" --version >/dev/null || die "the program does not run on this machine"
}

put_program() {
	mkdir -p "$lib"
	cp "$tmp/robotd" "$lib/robotd.new"
	mv "$lib/robotd.new" "$lib/robotd" # one that runs keeps the old file
	cp "$tmp/RELEASE" "$lib/RELEASE.new"
	mv "$lib/RELEASE.new" "$lib/RELEASE"
	say "release $(field counter "$lib/RELEASE"), version $(field version "$lib/RELEASE"), is installed"
}

make_account() {
	id "$account" >/dev/null 2>&1 && return
	if has useradd; then
		useradd --system --user-group --home-dir "$var" --no-create-home --shell /bin/false "$account"
	elif has adduser; then # busybox
		has addgroup && addgroup -S "$account"
		adduser -S -D -H -h "$var" -s /bin/false -G "$account" "$account"
	else
		die "needs useradd or adduser to make the user $account"
	fi
}

make_settings() {
	mkdir -p "$etc"
	printf '%s\n' "$url" >"$etc/url"
	[ -f "$etc/robotd.yaml" ] && return
	if [ -z "$contact" ] && [ -r /dev/tty ] && [ -t 1 ]; then
		printf 'URL or mail address at which webmasters reach you: ' >/dev/tty
		read -r contact </dev/tty
	fi
	[ -n "$contact" ] || die "give --contact: a URL or mail address at which webmasters reach you; every server that is visited will see it"
	plain contact "$contact"
	cat >"$etc/robotd.yaml.new" <<-END
		# Settings of this robot; robotd.yaml in the programs' sources shows all of them.
		# After a change: sheaf-robot restart
		data: $data
		contact: "$contact"
	END
	mv "$etc/robotd.yaml.new" "$etc/robotd.yaml"
	made=1
}

# make_environment remembers the proxy. The file is read by systemd and by shells.
make_environment() {
	[ -f "$etc/environment" ] && [ -z "$proxy" ] && return
	: >"$etc/environment.new"
	chmod 640 "$etc/environment.new" # a proxy may want a password
	for name in HTTPS_PROXY HTTP_PROXY ALL_PROXY NO_PROXY; do
		eval "value=\${$name:-}"
		case $value in
		'') continue ;;
		*\'* | *\\*) die "$name has a quotation mark or a backslash; write it into $etc/environment by hand" ;;
		esac
		printf "%s='%s'\n" "$name" "$value" >>"$etc/environment.new"
	done
	chgrp "$account" "$etc/environment.new"
	mv "$etc/environment.new" "$etc/environment"
}

join() {
	mkdir -p "$data"
	chown "$account:$account" "$var" "$data"
	chmod 750 "$var"
	chmod 700 "$data"
	if [ -f "$data/robot.json" ]; then
		say "this robot has joined already"
		return
	fi
	[ -n "$token" ] || die "give --token: this robot has not joined yet"
	as_robot "$lib/robotd" join "$url" "$token" --config "$etc/robotd.yaml" && return
	[ -z "$made" ] || rm -f "$etc/robotd.yaml" # the next try may bring another contact
	die "joining failed; put right what it says and run the command again, or ask for a new one"
}

make_service() {
	make_control
	if ! systemd; then
		if [ -d /etc/init.d ]; then
			ln -sf "$control" /etc/init.d/sheaf-robot
			has update-rc.d && update-rc.d sheaf-robot defaults >/dev/null && return
		fi
		say "there is no systemd here: see that $control start runs when the machine starts"
		return
	fi
	cat >"$unit" <<-END
		[Unit]
		Description=Sheaf robot
		Wants=network-online.target
		After=network-online.target
		StartLimitIntervalSec=0

		[Service]
		User=$account
		Group=$account
		EnvironmentFile=-$etc/environment
		ExecStart=$lib/robotd supervise --config $etc/robotd.yaml
		KillMode=mixed
		TimeoutStopSec=90
		Restart=always
		RestartSec=10
		LimitNOFILE=65536
		Nice=5
		RuntimeDirectory=sheaf-robot
		UMask=0077
		WorkingDirectory=$var
		ReadWritePaths=$var
		ProtectSystem=strict
		ProtectHome=yes
		PrivateTmp=yes
		PrivateDevices=yes
		ProtectClock=yes
		ProtectControlGroups=yes
		ProtectHostname=yes
		ProtectKernelLogs=yes
		ProtectKernelModules=yes
		ProtectKernelTunables=yes
		ProtectProc=invisible
		NoNewPrivileges=yes
		CapabilityBoundingSet=
		AmbientCapabilities=
		LockPersonality=yes
		MemoryDenyWriteExecute=yes
		RemoveIPC=yes
		RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
		RestrictNamespaces=yes
		RestrictRealtime=yes
		RestrictSUIDSGID=yes
		SystemCallArchitectures=native
		SystemCallFilter=@system-service
		SystemCallFilter=~@privileged
		SystemCallErrorNumber=EPERM

		[Install]
		WantedBy=multi-user.target
	END
	systemctl daemon-reload
	systemctl enable sheaf-robot.service
}

# make_control writes the command by which administrators start and stop the robot.
# Where there is no systemd it is the init script too.
make_control() {
	cp "$script" "$lib/install-robot.sh.new"
	mv "$lib/install-robot.sh.new" "$lib/install-robot.sh"
	mkdir -p "${control%/*}"
	cat >"$control.new" <<'END'
#!/bin/sh
### BEGIN INIT INFO
# Provides:          sheaf-robot
# Required-Start:    $network $remote_fs
# Required-Stop:     $network $remote_fs
# Default-Start:     2 3 4 5
# Default-Stop:      0 1 6
# Short-Description: Sheaf robot
### END INIT INFO
# Starts, stops and shows the robot; see install-robot.sh.
set -eu
account=sheaf-robot
lib=/usr/local/lib/sheaf-robot
etc=/etc/sheaf-robot
var=/var/lib/sheaf-robot
pid_file=$var/data/update/supervisor.pid

systemd() { [ -d /run/systemd/system ] && command -v systemctl >/dev/null 2>&1; }

as_robot() {
	if setpriv --help 2>&1 | grep -q -e --reuid; then
		exec setpriv --reuid="$account" --regid="$account" --clear-groups -- "$@"
	fi
	line=
	for word; do line="$line '$word'"; done
	exec su -s /bin/sh "$account" -c "exec $line"
}

# robotd does not return: who sends this process a signal means the program.
robotd() {
	set -a
	if [ -f "$etc/environment" ]; then . "$etc/environment"; fi
	set +a
	cd "$var"
	as_robot "$lib/robotd" "$@" --config "$etc/robotd.yaml"
}

# pid is the supervisor's, where it runs.
pid() {
	[ -f "$pid_file" ] && p=$(cat "$pid_file") && [ -n "$p" ] && kill -0 "$p" 2>/dev/null &&
		{ [ ! -r "/proc/$p/cmdline" ] || tr '\0' ' ' <"/proc/$p/cmdline" | grep -q 'robotd supervise'; } && echo "$p"
}

start() {
	if systemd; then systemctl start sheaf-robot.service; return; fi
	pid >/dev/null && return
	ulimit -n 65536 2>/dev/null || ulimit -n "$(ulimit -H -n)" || :
	if [ -f "$var/robotd.log" ] && [ "$(wc -c <"$var/robotd.log")" -gt 10000000 ]; then
		mv "$var/robotd.log" "$var/robotd.log.1"
	fi
	if command -v setsid >/dev/null 2>&1; then setsid "$0" foreground; else "$0" foreground; fi >>"$var/robotd.log" 2>&1 </dev/null &
	tenths=0
	while [ $tenths -lt 100 ]; do
		pid >/dev/null && return
		nap
	done
	echo "sheaf-robot: it does not start; see $var/robotd.log" >&2
	return 1
}

# nap sleeps a tenth of a second, or a whole one where sleep takes no fractions, and adds that to tenths.
nap() {
	if sleep 0.1 2>/dev/null; then
		tenths=$((tenths + 1))
	else
		sleep 1
		tenths=$((tenths + 10))
	fi
}

stop() {
	if systemd; then systemctl stop sheaf-robot.service; return; fi
	p=$(pid) || return 0
	kill "$p"
	tenths=0
	while [ "$(pid)" = "$p" ]; do
		nap
		[ $tenths -lt 900 ] || kill -KILL "$p" || :
	done
}

case ${1:-} in
start) start ;;
stop) stop ;;
restart | force-reload) stop; start ;;
foreground) robotd supervise ;;
status | check) robotd "$1" ;;
log) if systemd; then journalctl -u sheaf-robot.service -n 200 --no-pager; else tail -n 200 "$var/robotd.log"; fi ;;
leave) stop; robotd leave ;;
upgrade | remove) action=$1; shift; exec sh "$lib/install-robot.sh" "--$action" "$@" ;;
*)
	echo "usage: sheaf-robot start|stop|restart|status|check|log|leave|upgrade|remove [--purge]" >&2
	exit 2
	;;
esac
END
	chmod 755 "$control.new"
	mv "$control.new" "$control"
}

install_robot() {
	[ -n "$url" ] || die "give --url"
	plain url "$url"
	plain token "$token"
	case $pinned in
	*:*) ;;
	*) die "give --release N:SHA256, as the command that the operator sent has it" ;;
	esac
	get_release "${pinned%%:*}" "${pinned#*:}"
	have=0
	[ -f "$lib/RELEASE" ] && have=$(field counter "$lib/RELEASE")
	make_account
	if [ "$have" -lt "$(field counter "$tmp/RELEASE")" ]; then
		get_program
		put_program
	else
		say "release $have is installed already"
	fi
	make_settings
	make_environment
	join
	make_service
	"$control" restart
	say "the robot runs; sheaf-robot status shows what it does, $etc/robotd.yaml has its settings"
}

# upgrade installs the release that every robot may have now. The program that is
# installed verifies it, with the key that the robot learnt when it joined.
upgrade() {
	[ -x "$lib/robotd" ] || die "no robot is installed here"
	url=$(cat "$etc/url")
	get_release current ''
	fetch "$url/releases/$(field counter "$tmp/RELEASE")/RELEASE.minisig" "$tmp/RELEASE.minisig"
	"$lib/robotd" verify-release "$tmp/RELEASE" "$tmp/RELEASE.minisig" --config "$etc/robotd.yaml" >/dev/null || die "nothing was changed"
	if [ "$(field counter "$lib/RELEASE")" -ge "$(field counter "$tmp/RELEASE")" ]; then
		say "release $(field counter "$lib/RELEASE") is installed already"
		return
	fi
	get_program
	put_program
	"$control" restart
}

remove() {
	kept=
	if [ -f "$unit" ]; then
		systemctl disable sheaf-robot.service || :
	fi
	if [ -x "$control" ]; then
		"$control" stop || :
		if [ -f "$data/robot.json" ] && [ -x "$lib/robotd" ]; then
			say "handing the hosts back and uploading what is left, at most $wait s"
			timeout "$wait" "$control" leave || kept=1
		fi
	fi
	if [ -n "$kept" ] && [ -z "$purge" ]; then
		say "not all was uploaded, or the service did not answer. The programs and $var stay: run sheaf-robot leave later, then remove again, or remove --purge"
		exit 1
	fi
	if [ -f "$unit" ]; then
		rm -f "$unit"
		systemctl daemon-reload || :
	fi
	if [ -L /etc/init.d/sheaf-robot ]; then
		rm -f /etc/init.d/sheaf-robot
		if has update-rc.d; then update-rc.d sheaf-robot remove >/dev/null || :; fi
	fi
	rm -rf "$lib" "$control"
	if [ -n "$purge" ]; then
		rm -rf "$etc" "$var"
		if ! id "$account" >/dev/null 2>&1; then
			:
		elif has userdel; then
			userdel "$account"
		elif has deluser; then
			deluser "$account"
		fi
	else
		say "its settings and data stay in $etc and $var; --purge removes them too"
	fi
	say "the robot is removed"
}

url= token= contact= pinned= proxy= purge= made= wait=600 action=install_robot
script=$0
while [ $# -gt 0 ]; do
	case $1 in
	--url | --token | --contact | --release | --proxy | --wait)
		[ $# -gt 1 ] || die "$1 needs a value"
		case $1 in
		--url) url=${2%/} ;;
		--token) token=$2 ;;
		--contact) contact=$2 ;;
		--release) pinned=$2 ;;
		--proxy) proxy=$2 ;;
		--wait) wait=$2 ;;
		esac
		shift
		;;
	--upgrade) action=upgrade ;;
	--remove) action=remove ;;
	--purge) purge=1 ;;
	*) die "unknown argument $1" ;;
	esac
	shift
done
[ "$(id -u)" = 0 ] || die "must run as root: use sudo"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
use_proxy
$action
