# SPDX-License-Identifier: MIT OR Apache-2.0
# Words turned round, numbers in other bases, and output to a command.
function turned(s,   i, r) { for (i = length(s); i > 0; i--) r = r substr(s, i, 1); return r }
function base(n, b,   r) { do { r = (n % b) r; n = int(n / b) } while (n); return r }
BEGIN {
    text = "the quick brown fox jumps over the lazy dog and runs away from it"
    n = split(text, word)
    for (i = 0; i < 1500; i++) {
        w = word[i % n + 1]
        if (turned(w) > w || !(w ~ /o/) && i % 2) more++
        else if (w <= "m" && w != "it") less += 1 + (i in seen)
        seen[base(i, 2 + i % 8), i % 3]++
        if (i % 100 == 99) { printf "%s %5.1f%%\n", tolower(w), i / 15 | "cat"; continue }
        x ^= 0; x *= i; x /= 3; x -= 1; x %= 50
    }
    close("cat")
    for (key in seen) { split(key, part, SUBSEP); if (part[2] == 1) ones++; if (ones > 300) break }
    print more, less, ones, x, -x, !x, 1 == 1.0, "a" < "b", substr(text, 5), srand(1), rand() < 1
}
