# SPDX-License-Identifier: MIT OR Apache-2.0
declare -A seen
weigh() { weight=$((${#1} * $2 % 17)); }
for ((turn = 0; turn < 90000; turn++)); do
    printf -v word '%x-%d' "$((turn * 7919 % 4093))" "$((turn % 7))"
    weigh "$word" "$turn"
    ((seen[$word] += weight))
    [[ $word == *f-* ]] && found=${word//a/A}
done
echo "${#seen[@]} $found"
