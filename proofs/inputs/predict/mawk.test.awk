# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Fields split, patterns matched and numbers printed.
function gcd(a, b) { return b ? gcd(b, a % b) : a }
BEGIN {
    for (i = 1; i <= 4000; i++) {
        text = sprintf("%d:%x:%s", i * 37, i, i % 3 ? "odd one" : "third")
        n = split(text, part, ":")
        if (part[3] ~ /^th/) thirds++
        gsub(/[0-9]/, "#", text)
        sum += n + gcd(part[1], 360)
    }
    printf "%d %d %s\n", thirds, sum, toupper(text)
}
