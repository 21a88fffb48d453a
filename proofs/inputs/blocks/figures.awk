# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Reads figures of layouts for the tables of proofs/scripts/blocks and blocks-clang. A line contains program, input, layout, meter, misses, pages,
# instructions and bytes of code; or program, input, layout, cold-recorded or cold-tested, instructions in cold parts, and all instructions.
function grouped(n,    text, out) {
    text = sprintf("%d", n)
    while (length(text) > 3) { out = "," substr(text, length(text) - 2) out; text = substr(text, 1, length(text) - 3) }
    return text out
}
function ratio(figure, peer) { return peer > 0 ? figure / peer : 1 }
function mean_l1i(cell, layout) { return exp(logs[cell, layout] / links[cell, layout]) }
# Share of instructions in cold parts, for layouts that have cold parts by counts.
function percent(cell, layout, which) { return (cell, layout, which) in share ? sprintf("%.3f %%", share[cell, layout, which]) : "" }
function gate(text, figure, limit) {
    printf "- %s: %.3f, at most %.3f: %s.\n", text, figure, limit, figure <= limit ? "held" : "missed"
    if (figure > limit) missed = 1
}
{
    cell = $1 ", " $2; layout = $3
    if (!(cell in seen)) { seen[cell]; cell_of[++cells] = cell }
    if (!(layout in kinds)) { kinds[layout]; layout_of[++layouts] = layout }
    if ($4 ~ /^cold/) share[cell, layout, $4] = 100 * $5 / $6
    else if ($4 == "l1i") {
        logs[cell, layout] += log($5); links[cell, layout]++
        if (!((cell, layout) in least) || $5 < least[cell, layout]) least[cell, layout] = $5
        if ($5 > most[cell, layout]) most[cell, layout] = $5
        refs[cell, layout] = $7; bytes[cell, layout] = $8
    } else {
                # Running mean over the links.
        tlb_links[cell, layout, $4]++
        above[cell, layout, $4] += ($5 - $6 - above[cell, layout, $4]) / tlb_links[cell, layout, $4]
        pages[cell, layout] = $6
    }
}
