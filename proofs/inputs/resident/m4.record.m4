divert(-1)
# SPDX-License-Identifier: MIT OR Apache-2.0
define(`loop', `ifelse(eval($1 < $2), 1, `$3($1)loop(incr($1), $2, `$3')')')
define(`square', `eval($1 * $1) ')
define(`fib', `ifelse(eval($1 < 2), 1, $1, `eval(fib(decr($1)) + fib(eval($1 - 2)))')')
divert(0)dnl
loop(0, 600, `square')
fib(13)
define(`names', `ifelse($#, 1, `<$1>', `<$1>names(shift($@))')')dnl
loop(0, 200, `names(a, b, c, d)')
