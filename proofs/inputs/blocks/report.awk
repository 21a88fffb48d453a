# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Table and limits of proofs/scripts/blocks. Reads figures with figures.awk.
function measured(cell, layout) { return links[cell, layout] && ((cell, layout, 32) in above) && ((cell, layout, 64) in above) && ((cell, layout, 128) in above) }
# True if all layouts of a program with limits were measured.
function whole(cell) {
    return measured(cell, "plain-cdsort") && measured(cell, "blocks-auto") && measured(cell, "blocks-trace") && measured(cell, "bolt")
}
# Prints a goal that the documents do not claim.
function aim(text, figure, limit) {
    printf "- Goal, not claimed: %s: %.3f, at most %.3f: %s.\n", text, figure, limit, figure <= limit ? "held" : "missed"
}
# Layout of BOLT for the means: the build that GCC has not split, if there is one.
function bolt_of(cell) { return measured(cell, "bolt-whole") ? "bolt-whole" : "bolt" }
# Geometric mean over all cells of a layout's ratio to plain-cdsort.
function mean(name, kind, without,    k, m, cell, sum, count, layout) {
    for (k = 1; k <= cells; k++) {
        cell = cell_of[k]
        if (without != "" && cell ~ without) continue
        layout = name == "best bolt" ? bolt_of(cell) : name
        if (!whole(cell) || !measured(cell, layout)) continue
        if (kind == "l1i") { sum += log(ratio(mean_l1i(cell, layout), mean_l1i(cell, "plain-cdsort"))); count++ }
        else if (kind == "refs") { sum += log(refs[cell, layout] / refs[cell, "plain-cdsort"]); count++ }
        else for (m = 1; m <= 3; m++) { sum += log(ratio(above[cell, layout, tlb[m]], above[cell, "plain-cdsort", tlb[m]])); count++ }
    }
    return count ? exp(sum / count) : 1
}
END {
    split("32 64 128", tlb, " ")
    for (k = 1; k <= cells; k++) for (l = 1; l <= layouts; l++) {
        cell = cell_of[k]; layout = layout_of[l]
        if (!whole(cell) || !measured(cell, layout)) continue
        peer = mean_l1i(cell, "plain-cdsort")
        printf "| %s | %s | %s | %.3f | %.3f | %.3f |", cell, layout, grouped(mean_l1i(cell, layout)), mean_l1i(cell, layout) / peer, least[cell, layout] / peer, most[cell, layout] / peer
        for (m = 1; m <= 3; m++) printf " %.3f |", ratio(above[cell, layout, tlb[m]], above[cell, "plain-cdsort", tlb[m]])
        printf " %d | %.4f | %.3f | %s | %s |\n", pages[cell, layout], refs[cell, layout] / refs[cell, "plain-cdsort"], bytes[cell, layout] / bytes[cell, "plain-cdsort"], percent(cell, layout, "cold-recorded"), percent(cell, layout, "cold-tested")
    }
    for (k = 1; k <= cells; k++) {
        cell = cell_of[k]
        if (whole(cell) && tlb_links[cell, "blocks-auto", 128] < links[cell, "blocks-auto"])
            printf "\n%s: iTLB of %d, %d and %d links (32, 64, 128 entries), L1I of %d.\n", cell, tlb_links[cell, "blocks-auto", 32], tlb_links[cell, "blocks-auto", 64], tlb_links[cell, "blocks-auto", 128], links[cell, "blocks-auto"]
    }
    for (l = 1; l <= layouts; l++) for (k = 1; k <= cells; k++) inputs[layout_of[l]] += whole(cell_of[k]) && measured(cell_of[k], layout_of[l])
    print "\n## In short\n"
    for (l = 1; l <= layouts; l++) printf "- %s: L1I %.3f, iTLB %.3f, instructions %.4f of plain-cdsort in geometric mean over %d inputs.\n", layout_of[l], mean(layout_of[l], "l1i"), mean(layout_of[l], "itlb"), mean(layout_of[l], "refs"), inputs[layout_of[l]]
    print "\n## Gates\n"
    gate("L1I, mean", mean("blocks-auto", "l1i"), 0.72)
    gate("L1I with a trace, mean", mean("blocks-trace", "l1i"), 0.72)
    for (k = 1; k <= cells; k++) {
        cell = cell_of[k]
        if (!whole(cell)) continue
        peer = mean_l1i(cell, "plain-cdsort")
        limit = cell ~ /^cppcheck/ ? 0.98 : cell ~ /^postgresql/ ? 1.03 * mean_l1i(cell, "bolt") / peer : 0.92
        gate("L1I, " cell, mean_l1i(cell, "blocks-auto") / peer, limit)
        gate("L1I with a trace, " cell, mean_l1i(cell, "blocks-trace") / peer, limit)
    }
    gate(sprintf("iTLB with a trace, mean of %d cells, of BOLT's", 3 * inputs["blocks-trace"]), ratio(mean("blocks-trace", "itlb"), mean("best bolt", "itlb")), 1.03)
    gate("the same without PostgreSQL", ratio(mean("blocks-trace", "itlb", "^postgresql"), mean("best bolt", "itlb", "^postgresql")), 1.03)
    aim("iTLB by a profile alone, mean, of BOLT's", ratio(mean("blocks-auto", "itlb"), mean("best bolt", "itlb")), 1.03)
    aim("the same without PostgreSQL", ratio(mean("blocks-auto", "itlb", "^postgresql"), mean("best bolt", "itlb", "^postgresql")), 1.03)
    for (k = 1; k <= cells; k++) {
        cell = cell_of[k]
        if (!whole(cell) || cell !~ /^postgresql/) continue
        gate("iTLB64 with a trace, of BOLT's, " cell, ratio(above[cell, "blocks-trace", 64], above[cell, "bolt", 64]), 1)
        if (!measured(cell, "bolt-whole")) continue
        aim("iTLB64 with a trace, of bolt-whole's, " cell, ratio(above[cell, "blocks-trace", 64], above[cell, "bolt-whole", 64]), 1)
        aim("iTLB64 by a profile alone, of bolt-whole's, " cell, ratio(above[cell, "blocks-auto", 64], above[cell, "bolt-whole", 64]), 1)
        aim("L1I with a trace, of bolt-whole's, " cell, mean_l1i(cell, "blocks-trace") / mean_l1i(cell, "bolt-whole"), 1.03)
    }
    for (k = 1; k <= cells; k++) {
        cell = cell_of[k]
        if (!whole(cell) || cell ~ /^cppcheck/) continue
        aim("L1I of C programs, of BOLT's, " cell, mean_l1i(cell, "blocks-auto") / mean_l1i(cell, bolt_of(cell)), 1.10)
        aim("L1I of C programs with a trace, of BOLT's, " cell, mean_l1i(cell, "blocks-trace") / mean_l1i(cell, bolt_of(cell)), 1.10)
    }
    aim("L1I, mean", mean("blocks-auto", "l1i"), 0.66)
    aim("iTLB with a trace, mean, of CDSort's", mean("blocks-trace", "itlb"), 0.66)
    gate("instructions, mean", mean("blocks-auto", "refs"), 1.005)
    for (k = 1; k <= cells; k++) {
        cell = cell_of[k]
        if (!whole(cell)) continue
        gate("instructions, " cell, refs[cell, "blocks-auto"] / refs[cell, "plain-cdsort"], 1.01)
        gate("text, " cell, bytes[cell, "blocks-auto"] / bytes[cell, "plain-cdsort"], 1.01)
        gate("recorded, executed in cold parts, per cent, " cell, share[cell, "blocks-auto", "cold-recorded"], 0.1)
        gate("executed in cold parts, per cent, " cell, share[cell, "blocks-auto", "cold-tested"], 2)
    }
    print "\nThis proof fails where a gate is missed; goals may miss."
    exit missed
}
