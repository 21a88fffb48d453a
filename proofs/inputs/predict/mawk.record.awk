# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Words counted and lines built.
BEGIN {
    state = 42
    for (i = 0; i < 20000; i++) {
        state = (state * 16807) % 2147483647
        word = "w" state % 97
        count[word]++
        if (length(line) > 60) { lines++; line = "" }
        line = line " " word
    }
    for (word in count) total += count[word]
    print lines, total, substr(line, 2, 10), index(line, "w")
}
