# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Other commands, or with other arguments: sh git.test.sh GIT REPOSITORY
git=$1
cd "$2" || exit
"$git" log --stat -12
"$git" diff HEAD~9 HEAD~2
"$git" grep -c 'struct commit'
"$git" blame branch.c
"$git" shortlog -s
for path in alias.c config.c; do "$git" log --oneline --follow -- "$path"; done
"$git" ls-tree -r HEAD
"$git" describe --always
"$git" cat-file -p HEAD
