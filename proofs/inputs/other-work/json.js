// SPDX-License-Identifier: MIT OR Apache-2.0
// JSON, closures and floating point.
var rows = [];
for (var i = 0; i < 120; i++) { rows.push({ id: i, name: 'n' + i, sizes: [i, i / 4, 3] }); }
var text = JSON.stringify(rows), back = JSON.parse(text), total = 0;
back.forEach(function (r) { total += r.id + r.name.length + r.sizes[1]; });
print(text.length, total);
function counter() { var n = 0; return function (s) { n += s; return n; }; }
var up = counter(); for (i = 0; i < 3000; i++) { up(i % 3); }
var inside = 0;
for (var y = 0; y < 18; y++) for (var x = 0; x < 18; x++) {
  var cr = 2 * x / 18 - 1.5, ci = 2 * y / 18 - 1, r = 0, m = 0, k = 0;
  while (k < 30 && r * r + m * m < 4) { var t = r * r - m * m + cr; m = 2 * r * m + ci; r = t; k++; }
  if (k === 30) { inside++; }
}
print(up(0), inside, Math.max(1, 2, inside).toFixed(2), parseInt('ff', 16));
