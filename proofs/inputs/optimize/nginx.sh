#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Starts the nginx of a tree, sends it requests, and stops it: nginx.sh FOLDER-OF-THIS-FILE train|test
set -eu
inputs=$1
mkdir -p served/temp served/logs html-of-test
cp "$inputs/nginx.conf" served/
for number in 1 2 3 4 5; do seq 1 "$((number * 700))" >"html-of-test/$number.txt"; done
printf '<html><body>%s</body></html>\n' "$(seq 1 40)" >html-of-test/index.html
rm -f served/*.sock
objs/nginx -p served -c nginx.conf -g "user $(id -un) $(id -gn);" &
server=$!
trap 'kill -QUIT $server' EXIT
until curl --silent --output /dev/null --unix-socket served/files.sock http://site/; do
    kill -0 $server || exit 1
    sleep 0.1
done
# Each call keeps its connection for all of its requests.
ask() { curl --silent --output /dev/null "$@"; }
case $2 in
train)
    for round in 1 2 3 4 5 6; do
        ask --unix-socket served/files.sock "http://site/[1-5].txt?round=$round-[1-20]"
        ask --unix-socket served/files.sock "http://site/index.html?[1-60]"
        ask --unix-socket served/files.sock "http://site/missing/[1-20]" || true
        ask --unix-socket served/files.sock --head "http://site/[1-5].txt"
        ask --unix-socket served/proxy.sock "http://site/[1-5].txt?[1-10]"
    done ;;
test)
    for round in 1 2 3 4; do
        ask --unix-socket served/proxy.sock --compressed "http://site/[2-5].txt?round=$round-[1-25]"
        ask --unix-socket served/proxy.sock --range 100-900 "http://site/3.txt?[1-40]"
        ask --unix-socket served/files.sock "http://site/?list=[1-40]"
        ask --unix-socket served/files.sock --header "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT" "http://site/4.txt?[1-40]"
        ask --unix-socket served/files.sock "http://site/private/[1-20]" || true
    done ;;
esac
trap - EXIT
kill -QUIT $server
wait $server
