# SPDX-License-Identifier: MIT OR Apache-2.0
#
# The table of the proof c-torture, from its journal: round, language, level, program, form and result, separated by tabs. Ends with status 1
# if a program fails with the plugin, or if nothing was tested.

$5 == "stock" {
    passed[$2, $3, $1] += $6 ~ /^ok/
    all[$2, $3, $1]++
    if ($6 ~ /^ok/) cold["stock", $2, $3, $1] += substr($6, 4)
    next
}
{
    key = $2 SUBSEP $3 SUBSEP $1 SUBSEP $5
    if (!(key in tested)) order[++rows] = key
    tested[key]++
    if ($6 ~ /^ok/) {
        split_off[key] += substr($6, 4)
    } else {
        failed[key]++
        failures[++failed_in_all] = sprintf("%s %s, seed %d, %s, %s: %s", $2, $3, $1, $4, $5, $6)
    }
}

END {
    print "| language | level | seed | programs | pass without the plugin | form | tested | fail with the plugin | cold parts, stock | cold parts |"
    print "|---|---|--:|--:|--:|---|--:|--:|--:|--:|"
    for (row = 1; row <= rows; row++) {
        key = order[row]
        split(key, part, SUBSEP)
        group = part[1] SUBSEP part[2] SUBSEP part[3]
        is_checked = part[4] ~ / /
        printf "| %s | %s | %d | %d | %d | %s | %d | %d | %s | %s |\n", part[1] == "Cxx" ? "C++" : part[1], part[2], part[3], all[group], passed[group],
            part[4], tested[key], failed[key], is_checked ? "" : cold["stock", group], is_checked ? "" : split_off[key]
    }
    if (failed_in_all) print "\nFailures:\n"
    for (row = 1; row <= failed_in_all; row++) print "- " failures[row]
    exit !rows || failed_in_all > 0
}
