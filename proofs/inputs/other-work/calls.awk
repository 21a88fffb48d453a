# SPDX-License-Identifier: MIT OR Apache-2.0
# Functions that call themselves, and numbers.
function ackermann(m, n) { return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1)) }
function swap(a, i, j, t) { t = a[i]; a[i] = a[j]; a[j] = t }
function quicksort(a, left, right, i, last) {
    if (left >= right) return
    swap(a, left, left + int((right - left) / 2)); last = left
    for (i = left + 1; i <= right; i++) if (a[i] < a[left]) swap(a, ++last, i)
    swap(a, left, last); quicksort(a, left, last - 1); quicksort(a, last + 1, right)
}
BEGIN {
    print ackermann(2, 60)
    for (i = 1; i <= 1200; i++) a[i] = (i * 7919) % 4099
    quicksort(a, 1, 1200); print a[1], a[600], a[1200]
    for (i = 2; i <= 6000; i++) if (!(i in composite)) { primes++; for (j = i * i; j <= 6000; j += i) composite[j] = 1 }
    for (i = 1; i <= 700; i++) { x = sin(i) * cos(i) + exp(i % 5) - log(i); total += x; text = text substr("0123456789", i % 10 + 1, 1) }
    while (i-- > 0) { if (i % 4 == 0) zero++; else if (i % 4 == 1) delete a[i]; else other -= -i }
    printf "%.6f %d %s %d %d %d\n", total, length(text), substr(text, 100, 20), primes, zero, other
}
