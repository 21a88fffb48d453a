divert(-1)
# SPDX-License-Identifier: MIT OR Apache-2.0
define(`for', `ifelse($#, 0, ``$0'', eval($2 <= $3), 1, `pushdef(`$1', `$2')$4`'popdef(`$1')$0(`$1', incr($2), $3, `$4')')')
define(`gcd', `ifelse($2, 0, $1, `gcd($2, eval($1 % $2))')')
define(`reverse', `ifelse($#, 0, , $#, 1, ``$1'', `reverse(shift($@)), `$1'')')
divert(0)dnl
for(`i', 1, 250, `gcd(i, 360) translit(format(`%05d', i), `0123456789', `abcdefghij') ')
for(`i', 1, 120, `reverse(a, i, c, patsubst(`one two', `o', i), substr(`abcdefgh', eval(i % 8)))
')
for(`i', 1, 100, `len(regexp(`key'i`=value', `\(\w+\)=\(\w+\)', `\2\1')) index(`abcdef', `d') ')
