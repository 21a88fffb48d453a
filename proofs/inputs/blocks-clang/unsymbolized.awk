# SPDX-License-Identifier: MIT OR Apache-2.0
#
# awk -v program=NAME -f unsymbolized.awk CALLGRIND: converts the executions of a program's instructions and calls to an unsymbolized profile for
# llvm-profgen: the number of ranges, FROM-TO:COUNT; the number of branches, FROM->TO:COUNT. CALLGRIND was written with --dump-instr=yes
# --compress-pos=no. Calls from other files get the source address 1, which means external code to llvm-profgen.
/^c?ob=/ {
    match($0, /[(][0-9]+[)]/)
    id = substr($0, RSTART, RLENGTH)
    if (RSTART + RLENGTH <= length($0)) name[id] = substr($0, RSTART + RLENGTH + 1)
    inside = name[id] ~ ("/" program "$")
    if (/^o/) caller = inside
    callee = inside
    next
}
/^calls=/ {
    times = substr($1, 7)
    target = substr($2, 3)
    is_call = 1
    next
}
/^0x/ {
    address = substr($1, 3)
    if (is_call) {
                # The cost on this line belongs to the callee.
        if (callee) {
            from = (caller ? address : 1) "->" target
            if (!(from in branches)) calls++
            branches[from] += times
        }
        is_call = 0
        callee = caller
    } else if (caller) {
        if (!(address in executions)) instructions++
        executions[address] += $3
    }
}
END {
    if (!instructions) { print FILENAME ": no code of " program >"/dev/stderr"; exit 1 }
    print instructions
    for (address in executions) printf "%s-%s:%.0f\n", address, address, executions[address]
    print calls + 0
    for (from in branches) printf "%s:%.0f\n", from, branches[from]
}
