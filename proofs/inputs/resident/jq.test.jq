# SPDX-License-Identifier: MIT OR Apache-2.0
def digits: tostring | explode | map(. - 48) | add;
[range(150) | {number: ., text: "item \(.) of many", inner: {share: (. / 7), even: (. % 2 == 0)}}]
| (sort_by(-.number) | .[:5] | map(.text | split(" ") | .[1])),
  (map(.inner | to_entries | map(.key)) | flatten | unique),
  ([.[] | .number | digits] | max),
  (map(if .inner.even then .inner.share | floor else empty end) | add),
  ([limit(50; .[] | tojson | fromjson | .text | ltrimstr("item "))] | length)
