# SPDX-License-Identifier: MIT OR Apache-2.0
# A table of accounts, summed up and printed.
function draw(n) { state = state * 48271 % 2147483647; return state % n }
function pad(text, width) { while (length(text) < width) text = text "."; return text }
BEGIN {
    state = 7; FS = ","
    for (i = 0; i < 2500; i++) {
        $0 = sprintf("%d,%s%d,%.2f,%s", 1000 + draw(900), draw(3) ? "shop" : "bank", draw(60), draw(100000) / 100, draw(2) ? "yes" : "no")
        sum[$2] += $3; if ($4 ~ /^y/) open_of[$1]++; else closed[$1] = closed[$1] " " $2
        $2 = "x" $2; OFS = ";"; changed += length($0)
        if (sub(/shop[0-9]/, "S", $2)) shops++
    }
    for (name in sum) lines += length(pad(name, 12) sprintf("%12.3f", sum[name]))
    for (key in closed) { m = split(closed[key], list, " "); if (m > most) most = m }
    print changed, shops, lines, most, index("a bank", "bank")
}
