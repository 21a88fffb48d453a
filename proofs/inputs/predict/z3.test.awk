# SPDX-License-Identifier: MIT OR Apache-2.0
# Other questions to an SMT solver: colours of a map, a knapsack, bits that two ways of counting share, and arrays.
BEGIN {
    for (turn = 1; turn <= 8; turn++) {
        colours(16 + turn, 3)
        knapsack(12 + turn)
        bits(16)
        arrays(8 + turn)
    }
}

# Regions in a ring with chords, each of another colour than its neighbours.
function colours(regions, many, i) {
    print "(reset)\n(set-logic QF_IDL)"
    for (i = 0; i < regions; i++) print "(declare-fun c" i " () Int)\n(assert (and (<= 1 c" i ") (<= c" i " " many ")))"
    for (i = 0; i < regions; i++)
        print "(assert (distinct c" i " c" (i + 1) % regions "))\n(assert (or (distinct c" i " c" (i * 5 + 3) % regions ") (= c" (i + 2) % regions " 1)))"
    print "(check-sat)\n(get-value (c0))"
}

function knapsack(things, i) {
    print "(reset)\n(set-logic QF_LIA)"
    for (i = 0; i < things; i++) print "(declare-fun t" i " () Int)\n(assert (or (= t" i " 0) (= t" i " 1)))"
    printf "(assert (<= (+"
    for (i = 0; i < things; i++) printf " (* %d t%d)", 3 + i * 7 % 13, i
    printf ") %d))\n(assert (>= (+", 4 * things
    for (i = 0; i < things; i++) printf " (* %d t%d)", 5 + i * 11 % 17, i
    printf ") %d))\n(check-sat)\n", 6 * things
}

# The bits of a number counted one by one, and by halves, are as many.
function bits(wide, i) {
    print "(reset)\n(set-logic QF_BV)\n(declare-fun n () (_ BitVec " wide "))\n(define-fun one () (_ BitVec " wide ") (bvadd"
    for (i = 0; i < wide; i++) print " (bvand (bvlshr n (_ bv" i " " wide ")) (_ bv1 " wide "))"
    print "))\n(define-fun p () (_ BitVec 16) (bvsub n (bvand (bvlshr n #x0001) #x5555)))"
    print "(define-fun q () (_ BitVec 16) (bvadd (bvand p #x3333) (bvand (bvlshr p #x0002) #x3333)))"
    print "(define-fun r () (_ BitVec 16) (bvand (bvadd q (bvlshr q #x0004)) #x0f0f))"
    print "(assert (not (= one (bvand (bvadd r (bvlshr r #x0008)) #x001f))))\n(check-sat)"
}

function arrays(writes, i) {
    print "(reset)\n(set-logic QF_AUFLIA)\n(declare-fun m () (Array Int Int))\n(declare-fun i () Int)\n(declare-fun h (Int) Int)"
    printf "(define-fun n () (Array Int Int) "
    for (i = 0; i < writes; i++) printf "(store "
    printf "m"
    for (i = 0; i < writes; i++) printf " (+ i %d) (h %d))", i, i * 3 % 7
    print ")\n(assert (distinct (select n (+ i 2)) (h 6) (h 0)))\n(assert (< (select n i) (select m (- i 1))))\n(check-sat)"
}
