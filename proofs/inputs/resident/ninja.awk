# SPDX-License-Identifier: MIT OR Apache-2.0
#
# A build of units, libraries and programs for ninja; many: the number of units, deep: the number of headers in a chain.
BEGIN {
    print "cflags = -O2 -Wall\nrule cc\n  command = cc $cflags -MD -MF $out.d -c $in -o $out\n  description = CC $out"
    print "rule ar\n  command = ar rcs $out $in\n  description = AR $out\nrule link\n  command = cc -o $out $in $libs\n  pool = link\npool link\n  depth = 2"
    print "rule gen\n  command = awk -f $in > $out\n  restat = 1"
    for (h = 1; h <= deep; h++) print "build gen/h" h ".h: gen src/h" h ".awk | gen/" (h > 1 ? "h" h - 1 ".h" : "base.h")
    print "build gen/base.h: gen src/base.awk"
    for (u = 1; u <= many; u++) {
        printf "build obj/u%d.o: cc src/u%d.c | gen/h%d.h || gen/base.h\n", u, u, u % deep + 1
        if (u % 7 == 0) print "  cflags = -O3 -DUNIT=" u
        part[int(u / 20)] = part[int(u / 20)] " obj/u" u ".o"
    }
    for (l = 0; l in part; l++) { print "build lib/l" l ".a: ar" part[l]; all = all " lib/l" l ".a" }
    for (p = 1; p <= many / 50; p++) print "build bin/p" p ": link obj/u" p ".o |" all "\n  libs = " all
    print "build all: phony" all "\ndefault all"
    for (p = 1; p <= many / 50; p++) print "default bin/p" p
}
