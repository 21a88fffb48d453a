# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Writes `count` TPC-B-like transactions on the tables of schema.sql, like pgbench: one statement on each line, as `postgres --single` reads them.
# Has its own random numbers, so that every awk draws the same ones.

function draw(n) { # 1 to n; Park and Miller's minimal standard generator stays below 2^53
    state = state * 16807 % 2147483647
    return 1 + state % n
}

BEGIN {
    state = 20240601
    for (i = 0; i < count; i++) {
        account = draw(100000)
        teller = draw(10)
        delta = draw(10001) - 5001
        print "BEGIN"
        print "UPDATE pgbench_accounts SET abalance = abalance + " delta " WHERE aid = " account
        print "SELECT abalance FROM pgbench_accounts WHERE aid = " account
        print "UPDATE pgbench_tellers SET tbalance = tbalance + " delta " WHERE tid = " teller
        print "UPDATE pgbench_branches SET bbalance = bbalance + " delta " WHERE bid = 1"
        print "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (" \
            teller ", 1, " account ", " delta ", CURRENT_TIMESTAMP)"
        print "END"
    }
}
