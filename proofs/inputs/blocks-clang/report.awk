# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Table and limits of proofs/scripts/blocks-clang. Reads figures with figures.awk of the proof blocks.
END {
    base = "plain-cdsort"; cell = cell_of[1]
    for (l = 1; l <= layouts; l++) {
        layout = layout_of[l]
        if (!links[cell, layout] || !tlb_links[cell, layout, 64] || !links[cell, base]) { print "no figures of " layout >"/dev/stderr"; exit 1 }
        printf "| %s | %s | %.3f | %.3f | %.3f | %s | %.3f | %d |", layout, grouped(mean_l1i(cell, layout)), mean_l1i(cell, layout) / mean_l1i(cell, base),
            least[cell, layout] / mean_l1i(cell, base), most[cell, layout] / mean_l1i(cell, base), grouped(above[cell, layout, 64]), above[cell, layout, 64] / above[cell, base, 64], pages[cell, layout]
        printf " %.4f | %.3f | %s | %s |\n", refs[cell, layout] / refs[cell, base], bytes[cell, layout] / bytes[cell, base], percent(cell, layout, "cold-recorded"), percent(cell, layout, "cold-tested")
    }
    print "\n## Gates\n"
    gate("list, L1I", mean_l1i(cell, "list-cdsort") / mean_l1i(cell, base), 0.6)
    gate("list, iTLB64", above[cell, "list-cdsort", 64] / above[cell, base, 64], 0.6)
    gate("list, instructions", refs[cell, "list-cdsort"] / refs[cell, base], 1.005)
    gate("list, text", bytes[cell, "list-cdsort"] / bytes[cell, base], 1.05)
    gate("list, recorded, executed in cold parts, per cent", share[cell, "list-cdsort", "cold-recorded"], 0.1)
    gate("list, executed in cold parts, per cent", share[cell, "list-cdsort", "cold-tested"], 3)
    print "\nThis proof fails where a gate is missed."
    exit missed
}
