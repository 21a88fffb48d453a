# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Words counted, fields changed and records sorted: what is recorded of gawk.
function draw(n) { state = state * 16807 % 2147483647; return state % n }
function by_count(i, a, j, b) { return b - a ? b - a : i < j ? -1 : 1 }
BEGIN {
    state = 42
    for (i = 0; i < 3000; i++) {
        line = ""
        for (j = 0; j < 9; j++) line = line sprintf("%c%03d ", 97 + draw(26), draw(150))
        lines[i] = line "#" i
    }
    for (i = 0; i < 3000; i++) {
        $0 = lines[i]
        for (j = 1; j < NF; j++) { count[$j]++; length_of[substr($j, 1, 1)] += length($j) }
        $3 = toupper($3); if (i % 50 == 0) print $3, $NF, NR + i
        if (match($0, /[a-f][0-9]+ [n-z]/)) places[RSTART]++
        n += gsub(/[aeiou]0/, "<&>")
    }
    print n, length(count), length(places)
    PROCINFO["sorted_in"] = "by_count"
    for (word in count) if (shown++ < 40) printf "%-6s %5d\n", word, count[word]
    for (i = 0; i < 400; i++) sums[i % 7] += int(sqrt(i)) * 2 ^ (i % 5)
    for (i = 0; i < 7; i++) print i, sums[i]
    m = split("10:20:30:45", parts, ":"); for (i = 1; i <= m; i++) total += parts[i]; print total
}
