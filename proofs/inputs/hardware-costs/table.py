# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints tables of the measurements of costs.c, and checks the claims of the proof hardware-costs; exits with 1 if a claim does not hold."""

import sys

rows = [line.rstrip("\n").split("\t") for line in open(sys.argv[1], encoding="ascii")]
rows = [row for row in rows if len(row) == 7]
cycles = {(kind, layout, int(functions)): float(least) for kind, functions, layout, _, least, _, _ in rows}
cells = {
    (kind, layout, int(functions)): f"{least} ({median}), {pages}"
    for kind, functions, layout, pages, least, median, _ in rows
}
sizes = sorted({functions for _, _, functions in cells})
for kind in ("regular", "random"):
    print(f"| {kind} | " + " | ".join(f"{size} functions" for size in sizes) + " |")
    print("|---|" + "--:|" * len(sizes))
    for layout in dict.fromkeys(row[2] for row in rows):
        print(f"| {layout} | " + " | ".join(cells.get((kind, layout, size), "") for size in sizes) + " |")
    print()


def ratio(kind, layout, size, to="in order"):
    return cycles[kind, layout, size] / cycles[kind, to, size]


held = sizes[:-1]  # the largest is larger than the second-level cache of many processors
claims = [
    ("distance alone, with as many pages", "at most", 1.05, max(ratio(kind, "pages 1 MiB apart", size) for kind in ("regular", "random") for size in held)),
    ("order of the pages", "at most", 1.05, max(ratio(kind, "pages shuffled", size) for kind in ("regular", "random") for size in held)),
    ("a new page for each function, 128 functions, predicted wrongly", "at least", 1.05, ratio("random", "a page each", 128)),
    ("a new page for each function, 512 functions, predicted wrongly", "at least", 1.1, ratio("random", "a page each", 512)),
    ("neighbours apart on 98 pages, predicted wrongly", "at least", 1.2, ratio("random", "all shuffled", 2048)),
    ("neighbours apart in the largest program, predicted", "at least", 2, ratio("regular", "all shuffled", sizes[-1])),
    ("the same place in each page, predicted, 512 functions", "at least", 1.2, ratio("regular", "pages 1 MiB apart, aligned", 512)),
]
print("| cycles as a ratio to those in order | claimed | measured |")
print("|---|--:|--:|")
failed = False
for name, bound, limit, measured in claims:
    print(f"| {name} | {bound} {limit} | {measured:.3f} |")
    failed |= measured > limit if bound == "at most" else measured < limit
sys.exit(failed)
