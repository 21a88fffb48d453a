# SPDX-License-Identifier: MIT OR Apache-2.0
# Table and claims of the proof pgo. A line contains program, input, form, meter, instructions, misses, touched pages, and bytes of text.

{
    row = $1 ", " $2 SUBSEP $3
    if (!(row in text)) rows[++number] = row
    program[row] = $1; input[row] = $2; form[row] = $3; text[row] = $8
    instructions[row] = $5
    if ($4 == "l1i") l1i[row] = $6
    if ($4 == "32" || $4 == "64") tlb[row, $4] = $6 - $7
}

# A count, and its ratio to the count of the program without a profile.
function cells(has, count, base) {
    return has ? sprintf(" %d | %.4f |", count, base ? count / base : 0) : "  |  |"
}

# Adds the misses in a row to the mean of its kind.
function note(name, row, plain,    entries) {
    if (!((name, 32) in means)) kind[++kinds] = name
    for (entries = 32; entries <= 64; entries += 32) {
        sum[name, entries] += log(tlb[row, entries] / tlb[plain, entries])
        means[name, entries]++
    }
    of_mean[name] = of_mean[name] (of_mean[name] == "" ? "" : "; ") program[row] ", " input[row]
}

function less(one, other) { return one < other ? one : other }

function claim(text, value, limit, counts,    held) {
    held = value <= limit
    claims = claims sprintf("- %s: %.4f, at most %.3f: %s.\n", text, value, limit, held ? "held" : "missed")
    missed = missed || (counts && !held)
}

END {
    for (at = 1; at <= number; at++) {
        row = rows[at]
        split(row, part, SUBSEP)
        name = form[row]
        sub(/:input$/, "", name)
        sub(/:ordered$/, ", ordered", name)
        sub(/:cdsort$/, ", CDSort", name)
        sub(/:bolt-blocks$/, ", BOLT", name)
        sub(/:bolt-functions$/, ", BOLT, functions alone", name)
        base = part[1] SUBSEP "plain:input"
        printf "| %s | %s |%s%s%s%s %d |\n", part[1], name, cells(1, instructions[row], instructions[base]), cells(row in l1i, l1i[row], l1i[base]),
            cells((row, 32) in tlb, tlb[row, 32], tlb[base, 32]), cells((row, 64) in tlb, tlb[row, 64], tlb[base, 64]), text[row]
    }
    for (at = 1; at <= number; at++) {
        row = rows[at]
        split(row, part, SUBSEP)
        plain = part[1] SUBSEP "plain:input"
        own = part[1] SUBSEP "own:input"
        placed = part[1] SUBSEP "plain:ordered"
        if (form[row] == "text:input" && input[row] == "record")
            claim(part[1] ", instructions from text, by those from GCC\047s own files", instructions[row] / instructions[own], 1.01, 1)
        if (form[row] == "text-partial:input" && input[row] != "record")
            claim(part[1] ", instructions with partial training, by those without a profile", instructions[row] / instructions[plain], 1.005, 1)
        if (form[row] == "text-partial:ordered" && placed in l1i) {
            claim(part[1] ", L1I misses with counters and order, by those with order alone", l1i[row] / l1i[placed], 1.05, 1)
            claim(part[1] ", iTLB misses (64) with counters and order, by those with order alone", tlb[row, 64] / tlb[placed, 64], 1.05, 1)
            note("counters and order", row, plain)
        }
        if (form[row] == "blocks:ordered" && input[row] != "record") note("blocks and order", row, plain)
        if (form[row] == "both:ordered" && input[row] != "record") note("counters, blocks and order", row, plain)
    }
    for (at = 1; at <= number; at++) {
        row = rows[at]
        split(row, part, SUBSEP)
        apart = part[1] SUBSEP "blocks:ordered"
        counted = part[1] SUBSEP "text-partial:ordered"
        if (form[row] == "both:ordered" && input[row] != "record" && apart in l1i && counted in l1i) {
            claim(part[1] ", L1I misses with counters and blocks, by the less of those with one of them", l1i[row] / less(l1i[apart], l1i[counted]), 1, 0)
            claim(part[1] ", iTLB misses (64) with counters and blocks, by the less of those with one of them", tlb[row, 64] / less(tlb[apart, 64], tlb[counted, 64]), 1, 0)
        }
    }
    for (at = 1; at <= kinds; at++)
        for (entries = 32; entries <= 64; entries += 32) {
            number = means[kind[at], entries]
            claim(sprintf("iTLB misses (%d) with %s, by those in input order, geometric mean of %d (%s)", entries, kind[at], number, of_mean[kind[at]]), exp(sum[kind[at], entries] / number), entries == 64 ? 0.22 : 0.3, kind[at] == "counters and order")
        }
    printf "\n%s", claims
    exit missed
}
