# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Commands of every day: sh git.record.sh GIT REPOSITORY
git=$1
cd "$2" || exit
for path in cache.h blame.c diff.c date.c; do "$git" log --oneline -- "$path"; done
"$git" status --short
"$git" diff HEAD~3 --stat
"$git" log -p -5
"$git" grep -n strbuf_add
"$git" blame advice.c
"$git" rev-list --all --count
"$git" show HEAD~7
"$git" ls-files
"$git" branch -v
