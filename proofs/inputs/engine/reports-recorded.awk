# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Reports on the tables of examples/postgresql/schema.sql, to be recorded beside transactions.
function draw(n) { state = state * 16807 % 2147483647; return 1 + state % n }
BEGIN {
    state = first
    for (i = 0; i < count; i++) {
        a = draw(99000)
        print "SELECT tid, sum(delta), min(mtime) < now() FROM pgbench_history GROUP BY tid HAVING count(*) > 1 ORDER BY tid"
        print "SELECT t.tid, t.tbalance, (SELECT max(abalance) FROM pgbench_accounts WHERE aid BETWEEN " a " AND " a " + t.tid) FROM pgbench_tellers t ORDER BY t.tbalance LIMIT 4"
        print "SELECT count(*) FROM pgbench_accounts a, pgbench_history h WHERE h.aid = a.aid AND a.abalance <> 0"
        print "SELECT DISTINCT substr(md5((aid % 5)::text), 1, 3) || lower('AB') FROM pgbench_accounts WHERE aid < 60 UNION SELECT 'x'"
        print "DELETE FROM pgbench_history WHERE aid = " a
    }
}
