# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with the scripts
#
# PostgreSQL's servers, with the schema and the transactions of examples/postgresql. A script sources this file; this file sources proof.sh.

source "$(dirname "${BASH_SOURCE[0]}")/proof.sh"

example=$repository/examples/postgresql
# PostgreSQL refuses to run as root. In a user namespace, root gets another user number, and root's files still belong to it.
as_user=()
[[ $EUID -ne 0 ]] || as_user=(unshare --user --map-user=1000)

# Makes the data of a server, with the example's tables. The server's folder also contains initdb.
make_data() { # server, new folder
    "${as_user[@]}" "${1%/*}/initdb" -D "$2" -U postgres -A trust --no-locale -E UTF8 --no-sync
    printf '%s\n' "fsync = off" "shared_buffers = 64MB" "max_wal_size = 4GB" >>"$2/postgresql.conf"
    "${as_user[@]}" "$1" --single -D "$2" postgres <"$example/schema.sql"
}

# Installs a build of another major version below $server, with the files that the server reads there, and makes its data.
make_server() { # folder of the build
    local folder
    for folder in backend include timezone backend/utils/mb/conversion_procs backend/snowball bin/initdb pl/plpgsql/src; do
        make -s -C "$1/src/$folder" install
    done
    rm -rf "$server/data" "$server/data.new"
    make_data "$server/install/bin/postgres" "$server/data.new"
    mv "$server/data.new" "$server/data"
}

# Makes the tree of Debian sid, the source of version 18, and installs the tools that these sources need: they do not contain the output of bison
# and flex.
need_postgresql_18() {
    need bison=bison=bison flex=flex=flex
    [[ -e $cache/debian-sid/etc/apt/sources.list ]] || "$repository/scripts/toolchain" debian-sid >&2
}
