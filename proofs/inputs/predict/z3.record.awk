# SPDX-License-Identifier: MIT OR Apache-2.0
# Questions to an SMT solver, several of each kind: a plan of jobs on machines, a multiplication of bits, sums of integers, and functions of which nothing is known.
BEGIN {
    for (turn = 1; turn <= 300; turn++) {
        plan(5 + turn % 3, 3, 24 + turn % 12)
        factor(16 + turn % 4, 40503 + 2 * turn)
        sums(8 + turn % 5, turn % 60)
        unknown(10 + turn % 24)
    }
}

# Jobs of some steps, one on each machine, at most this long in all.
function plan(jobs, machines, longest, job, other, step) {
    print "(reset)\n(set-logic QF_IDL)"
    for (job = 0; job < jobs; job++) for (step = 0; step < machines; step++) {
        print "(declare-fun s" job "_" step " () Int)\n(assert (>= s" job "_" step " 0))"
        if (step) print "(assert (>= (- s" job "_" step " s" job "_" step - 1 ") " long(job, step - 1) "))"
        print "(assert (<= s" job "_" step " " longest - long(job, step) "))"
        for (other = 0; other < job; other++)
            print "(assert (or (>= (- s" job "_" step " s" other "_" step ") " long(other, step) ") (>= (- s" other "_" step " s" job "_" step ") " long(job, step) ")))"
    }
    print "(check-sat)"
}
function long(job, step) { return 2 + (job * 7 + step * 5) % 6 }

# Two numbers of so many bits above one whose product this is.
function factor(bits, product) {
    print "(reset)\n(set-logic QF_BV)\n(declare-fun a () (_ BitVec " bits "))\n(declare-fun b () (_ BitVec " bits "))"
    print "(assert (= (bvmul a b) (_ bv" product " " bits ")))\n(assert (bvugt a (_ bv1 " bits ")))\n(assert (bvult a b))"
    print "(assert (= ((_ extract 1 0) (bvxor a (bvlshr b (_ bv2 " bits ")))) #b01))\n(check-sat)\n(get-value (a b))"
}

function sums(variables, seed, i, j) {
    print "(reset)\n(set-logic QF_LIA)"
    for (i = 0; i < variables; i++) print "(declare-fun x" i " () Int)\n(assert (and (>= x" i " 0) (<= x" i " 20)))"
    for (j = 0; j < variables - 2; j++) {
        printf "(assert (= (+"
        for (i = 0; i < variables; i++) printf " (* %d x%d)", (i * 3 + j * 11 + seed) % 9 + 1, i
        printf ") %d))\n", 150 + 30 * j + seed
    }
    print "(check-sat)"
}

function unknown(depth, i) {
    print "(reset)\n(set-logic QF_UFLIA)\n(declare-fun f (Int) Int)\n(declare-fun g (Int Int) Int)\n(declare-fun a () Int)\n(declare-fun b () Int)"
    for (i = 0; i < depth; i++)
        print "(assert (or (= (f (+ a " i ")) (g b " i ")) (< (f (g a " i ")) (+ b " i % 5 "))))\n(assert (distinct (f " i ") (g " i " a)))"
    print "(assert (not (= (f a) (f (+ a 0)))))\n(check-sat)"
}
