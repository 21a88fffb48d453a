# SPDX-License-Identifier: MIT OR Apache-2.0
[range(700) | {id: ., name: "n\(. * 7919 % 1009)", tags: [. % 3, . % 5]}]
| (group_by(.tags[0]) | map({key: .[0].tags[0], many: length, names: (map(.name) | unique | length)})),
  (map(select(.id % 7 == 0) | .name | ascii_upcase) | join(",") | length),
  (reduce .[] as $item (0; . + $item.id * ($item.tags | add)))
