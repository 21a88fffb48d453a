# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Converts callgrind.out to lld's --call-graph-ordering-file ("CALLER CALLEE CALLS"), for the object whose path ends with `object`. Does not use
# sediment's code, so that lld's own layouts do not depend on how sediment reads the recording.

function name(space, text,    id) { # "(ID) NAME" defines, "(ID)" refers
    if (text !~ /^\([0-9]+\)/) return text
    id = text
    sub(/\).*/, ")", id)
    if (text != id) names[space, id] = substr(text, length(id) + 2)
    return names[space, id]
}

function ours(path) { return substr(path, length(path) - length(object) + 1) == object }

function plain(function_name) { sub(/'.*/, "", function_name); return function_name }

/^ob=/ { here = name("ob", substr($0, 4)) }
/^fn=/ { caller = name("fn", substr($0, 4)) }
/^cob=/ { there = name("ob", substr($0, 5)) }
/^cfn=/ { callee = name("fn", substr($0, 5)) }
/^calls=/ {
    if (there == "") there = here
    if (ours(here) && ours(there) && caller !~ /^0x/ && callee !~ /^0x/)
        calls[plain(caller) " " plain(callee)] += substr($1, 7)
    there = ""
}
END { for (pair in calls) printf "%s %.0f\n", pair, calls[pair] | "LC_ALL=C sort" }
