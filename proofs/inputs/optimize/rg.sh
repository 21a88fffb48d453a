#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Searches the folder corpus with the ripgrep of a tree: rg.sh train|test
set -eu
rg=target/release/rg
case $1 in
train)
    $rg --threads 1 'static \w+' corpus | wc -l
    $rg --threads 1 --ignore-case --count 'return|break' corpus | wc -l
    $rg --threads 1 --files corpus | wc -l
    $rg --threads 1 --line-number --context 2 'if \(.*==' --type c corpus | wc -l
    $rg --threads 1 --json 'NULL' corpus | wc -l ;;
test)
    $rg --threads 1 --only-matching --replace '$2' '(\w+)_(\w+)_t' corpus | wc -l
    $rg --threads 1 --fixed-strings --word-regexp --multiline 'char' corpus | wc -l
    $rg --threads 1 --files-without-match 'include' corpus | wc -l
    $rg --threads 1 --invert-match --stats '^\s' --glob '*.h' corpus | wc -l ;;
esac
