# SPDX-License-Identifier: MIT OR Apache-2.0
# A C file of many different functions.
BEGIN {
    print "struct item { int kind, count; struct item *next; double weight; };"
    for (n = 0; n < 400; n++) {
        printf "static int step%d(struct item *item, int limit) {\n    int sum = 0;\n", n
        printf "    for (; item && sum < limit; item = item->next)\n        switch (item->kind %% %d) {\n", n % 9 + 3
        for (kind = 0; kind < n % 9 + 3; kind++)
            printf "        case %d: sum += item->count * %d; item->weight = item->weight / %d + sum; break;\n", kind, kind * n % 13 + 1, kind + 2
        printf "        }\n    return sum%s;\n}\n", n ? sprintf(" + step%d(item, limit / 2)", n - 1) : ""
    }
    print "int all(struct item *item) { return step399(item, 100000); }"
}
