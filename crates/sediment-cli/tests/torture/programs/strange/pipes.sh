# SPDX-License-Identifier: MIT OR Apache-2.0
# sh pipes.sh
# Shell plumbing: pipelines that die of SIGPIPE, traps, exit statuses by signal, noclobber lock files, fd juggling, background jobs and a group that kills itself.
ulimit -c 0
d=$(mktemp -d) || exit 1
trap 'rm -rf "$d"' EXIT
trap '' INT
n=0
i=0
while [ $i -lt 40 ]; do # writers killed by a closed pipe
    { sh -c 'trap - PIPE; while :; do echo y || exit 2; done' 2>/dev/null; echo $? >"$d/w"; } | head -n 1 >/dev/null
    while [ ! -s "$d/w" ]; do sleep 0.01; done
    read -r s <"$d/w"
    [ "$s" = 141 ] || [ "$s" = 2 ] && n=$((n + 1))
    rm -f "$d/w"
    i=$((i + 1))
done
echo "writers ended $n"
for s in 2 6 9 11 13 14 15; do # statuses of deaths; INT is ignored from above
    sh -c "kill -$s \$\$; exit 7" 2>/dev/null
    printf '%s ' $?
done 2>/dev/null
echo
sh -c 'trap "exit 5" USR1; (kill -USR1 $$) & wait; sleep 1; exit 6'
echo "trap $?"
i=0
while [ $i -lt 12 ]; do # one of the crowd gets the lock
    for k in 1 2 3 4 5; do
        (set -C; { echo $k >"$d/lock$i"; } 2>/dev/null && echo won >>"$d/won") &
    done
    wait
    i=$((i + 1))
done
echo "locks $(wc -l <"$d/won")"
i=0
sum=0
while [ $i -lt 40 ]; do # background statuses in order
    (exit $i) &
    p=$!
    wait $p
    sum=$((sum + $?))
    i=$((i + 1))
done
echo "statuses $sum"
exec 3>"$d/out" 4<<X
line one
line two
X
read -r a <&4
cat <&4 >&3
exec 3>&- 4<&-
echo "$a, $(cat "$d/out")"
setsid sh -c 'sleep 30 & sleep 30 & trap "" TERM; kill -TERM 0; trap - TERM; kill -KILL 0'
echo "group $?"
i=0
x=
while [ $i -lt 60 ]; do # nested substitutions
    x=$(printf %s "$(echo "$(echo $i)")$x" | cut -c1-60)
    i=$((i + 1))
done
echo "$x"
(ulimit -n 3; cat </dev/null) 2>/dev/null
echo "no descriptor left $?"
exec sh -c 'echo "last words"; kill -ABRT $$; exit 1'
