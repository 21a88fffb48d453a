# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Table and gates of scripts/proofs/blocks-clang, from lines of layout, meter, misses, pages, instructions and bytes of code; or of layout, cold-recorded or
# cold-tested, instructions in cold parts and all.
function grouped(n,    text, out) {
    text = sprintf("%d", n)
    while (length(text) > 3) { out = "," substr(text, length(text) - 2) out; text = substr(text, 1, length(text) - 3) }
    return text out
}
function mean_l1i(layout) { return exp(logs[layout] / links[layout]) }
function gate(text, figure, limit) {
    printf "- %s: %.3f, at most %.3f: %s.\n", text, figure, limit, figure <= limit ? "held" : "missed"
    if (figure > limit) missed = 1
}
function percent(layout, which) { return (layout, which) in share ? sprintf("%.3f %%", share[layout, which]) : "" }
{
    if (!($1 in seen)) { seen[$1]; layout_of[++layouts] = $1 }
    if ($2 ~ /^cold/) share[$1, $2] = 100 * $3 / $4
    else if ($2 == "l1i") {
        logs[$1] += log($3); links[$1]++
        if (!($1 in least) || $3 < least[$1]) least[$1] = $3
        if ($3 > most[$1]) most[$1] = $3
        refs[$1] = $5; bytes[$1] = $6
    } else {
        # Mean over the links so far.
        tlb_links[$1]++
        above[$1] += ($3 - $4 - above[$1]) / tlb_links[$1]
        pages[$1] = $4
    }
}
END {
    base = "plain-cdsort"
    for (l = 1; l <= layouts; l++) {
        layout = layout_of[l]
        if (!links[layout] || !tlb_links[layout] || !links[base]) { print "no figures of " layout >"/dev/stderr"; exit 1 }
        printf "| %s | %s | %.3f | %.3f | %.3f | %s | %.3f | %d |", layout, grouped(mean_l1i(layout)), mean_l1i(layout) / mean_l1i(base),
            least[layout] / mean_l1i(base), most[layout] / mean_l1i(base), grouped(above[layout]), above[layout] / above[base], pages[layout]
        printf " %.4f | %.3f | %s | %s |\n", refs[layout] / refs[base], bytes[layout] / bytes[base], percent(layout, "cold-recorded"), percent(layout, "cold-tested")
    }
    print "\n## Gates\n"
    gate("list, L1I", mean_l1i("list-cdsort") / mean_l1i(base), 0.6)
    gate("list, iTLB64", above["list-cdsort"] / above[base], 0.6)
    gate("list, instructions", refs["list-cdsort"] / refs[base], 1.005)
    gate("list, text", bytes["list-cdsort"] / bytes[base], 1.05)
    gate("list, recorded, executed in cold parts, per cent", share["list-cdsort", "cold-recorded"], 0.1)
    gate("list, executed in cold parts, per cent", share["list-cdsort", "cold-tested"], 3)
    print "\nThis proof fails where a gate is missed."
    exit missed
}
