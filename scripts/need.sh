#!/bin/sh
# need.sh NAME:PACKAGE ...   checks that the system has each program or library NAME.
# Installs missing packages as root on Debian; prints their names elsewhere.
missing=""
for need in "$@"; do
    name=${need%%:*}
    command -v "$name" >/dev/null 2>&1 && continue
    PATH="$PATH:/sbin:/usr/sbin" ldconfig -p 2>/dev/null | grep -q "$name" && continue
    missing="$missing ${need#*:}"
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing$missing" >&2
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing; } >/dev/null && exit 0
fi
echo "These system packages are needed:$missing; on Debian: apt-get install$missing" >&2
exit 1
