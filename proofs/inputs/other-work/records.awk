# SPDX-License-Identifier: MIT OR Apache-2.0
# Records and fields: what is read, changed and written again.
function draw(n) { state = state * 16807 % 2147483647; return state % n }
BEGIN {
    state = 42
    for (i = 0; i < 2000; i++) {
        line = ""
        for (j = 0; j < 9; j++) line = line sprintf("%c%03d ", 97 + draw(26), draw(150))
        $0 = line "#" i
        for (j = 1; j < NF; j++) { count[$j]++; size[substr($j, 1, 1)] += length($j) }
        $3 = toupper($3); if (i % 50 == 0) print $3, $NF, NR + i
        if (match($0, /[a-f][0-9]+ [n-z]/)) places[RSTART]++
        n += gsub(/[aeiou]0/, "<&>")
    }
    for (i = 0; i < 400; i++) sums[i % 7] += int(sqrt(i)) * 2 ^ (i % 5)
    for (i = 0; i < 7; i++) print i, sums[i], n
}
