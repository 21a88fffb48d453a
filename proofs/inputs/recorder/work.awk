# SPDX-License-Identifier: MIT OR Apache-2.0
function weigh(word, turn) { return length(word) * turn % 17 }
BEGIN {
    for (turn = 0; turn < 800000; turn++) {
        word = sprintf("%x-%d", turn * 7919 % 65521, turn % 7)
        seen[word] += weigh(word, turn)
        if (word ~ /^[0-9]+f-/) { gsub(/1/, "one", word); found += length(word) }
    }
    for (word in seen) if (seen[word] > most) most = seen[word]
    print length(seen), found, most
}
