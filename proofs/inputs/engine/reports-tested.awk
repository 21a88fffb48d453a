# SPDX-License-Identifier: MIT OR Apache-2.0
function draw(n) { state = state * 16807 % 2147483647; return 1 + state % n }
BEGIN {
  state = first
  for (i = 0; i < count; i++) {
    a = draw(99000)
    print "SELECT bid, count(*), sum(abalance), avg(abalance) FROM pgbench_accounts WHERE aid BETWEEN " a " AND " a + 40 " GROUP BY bid ORDER BY 2 DESC"
    print "SELECT a.aid, t.tid, b.bbalance FROM pgbench_accounts a JOIN pgbench_branches b USING (bid) LEFT JOIN pgbench_tellers t ON t.tid = a.aid % 10 WHERE a.aid IN (" a ", " a + 7 ", " a + 19 ") ORDER BY t.tid NULLS FIRST"
    print "WITH s AS (SELECT aid, abalance, row_number() OVER (ORDER BY abalance, aid) AS n FROM pgbench_accounts WHERE aid < " 30 + draw(20) ") SELECT max(n), min(aid) FROM s WHERE n % 3 = 0"
    print "INSERT INTO pgbench_history SELECT tid, bid, " a ", tbalance, now(), substr(md5(tid::text), 1, 20) FROM pgbench_tellers WHERE tid <= " draw(4)
    print "UPDATE pgbench_history SET delta = delta * 2, filler = upper(substr(filler, 2)) || 'x' WHERE aid = " a
    print "DELETE FROM pgbench_history WHERE aid = " a " AND filler LIKE '%x'"
    print "SELECT to_char(date '2001-02-03' + " draw(900) ", 'YYYY-MM-DD Day'), regexp_replace('a" a "b', '[0-9]+', '#'), '{\"k\": [1, 2, " a "]}'::jsonb #> '{k,1}'"
  }
}
