# SPDX-License-Identifier: MIT OR Apache-2.0
#
# A table of accounts, summed up, joined and printed: what is measured of gawk.
function draw(n) { state = state * 48271 % 2147483647; return state % n }
function pad(text, width) { while (length(text) < width) text = text "."; return text }
BEGIN {
    state = 7; FS = ","
    for (i = 0; i < 4000; i++) rows[i] = sprintf("%d,%s%d,%.2f,%s", 1000 + draw(900), draw(3) ? "shop" : "bank", draw(60), draw(100000) / 100, draw(2) ? "yes" : "no")
    for (i = 0; i < 4000; i++) {
        $0 = rows[i]
        sum[$2] += $3; if ($4 ~ /^y/) open_of[$1]++; else closed[$1] = closed[$1] " " $2
        if ($1 % 97 == 0) print NR, $1, tolower($2), index($0, "bank")
        $2 = "x" $2; OFS = ";"; changed += length($0)
        if (sub(/shop[0-9]/, "S", $2)) shops++
    }
    n = asorti(sum, names)
    for (i = 1; i <= n; i++) print pad(names[i], 12), sprintf("%12.3f", sum[names[i]])
    print changed, shops, length(open_of)
    for (key in closed) { m = split(closed[key], list, " "); if (m > most) { most = m; of = key } }
    print of > "/dev/null"; print most
    text = "the quick brown fox jumps over the lazy dog"
    for (i = 0; i < 300; i++) { copy = gensub(/(o)(.)/, "\\2\\1", "g", text i); total += length(copy) + strtonum("0x1f") }
    print total, and(total, 255), substr(copy, 5, 9)
}
